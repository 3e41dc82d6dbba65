"""``jupyter tpu copy`` and ``%tpu copy``: files and folders to hosts, and from them."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click

from ..agent_token import acts_as_agent
from ..errors import InvalidInput, Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples
from ..terminal.nodes import find_node
from ..terminal.parameters import complete_zone, copied_paths, project_option
from ..terminal.printing import json_option, note, print_json
from ..terminal.questions import confirm, yes_option
from ..terminal.session import current_target, open_session
from ..terminal.streams import clean_console
from ..terminal.tables import is_terminal, size
from ..terminal.waiting import finish, progress_stream
from ..wording import count, hosts_text

if TYPE_CHECKING:
    from ..cloud import Target
    from ..fleet.models import CopyFiles, HostCopy, Operation
    from ..terminal.session import FleetSession


#: NAME:PATH, [ZONE/]NAME of a TPU. What begins with . or / is a path of this computer.
_REMOTE = re.compile(r"((?:[a-z][-a-z0-9]*[/~])?[a-z][-a-z0-9]*):(.*)", re.DOTALL)


#: Called with the bytes that are there and all bytes, from any thread.
Report = Callable[[int, int], None]


class Copy(NamedTuple):
    """What a command line asks for."""

    tpu: str
    to_tpu: bool
    sources: list[str]
    destination: str

    def request(self, **fields: Any) -> CopyFiles:
        """The same for the fleet, with other *fields* of it."""
        from ..fleet.models import CopyFiles

        return CopyFiles(
            sources=self.sources,
            destination=self.destination,
            download=not self.to_tpu,
            **fields,
        )


#: Seconds between two lines of progress where there is no terminal.
_REPORT_SECONDS = 5.0


@command(
    "copy",
    epilog=examples(
        "jupyter tpu copy data my-tpu:                    the folder data, to the home folder",
        "jupyter tpu copy train.py data my-tpu:project/   both, to a folder that exists",
        "jupyter tpu copy data my-tpu:new/folder/ -p      creates the folder",
        "jupyter tpu copy my-tpu:out/model.ckpt .",
        "jupyter tpu copy data my-pod: --worker all       sent once, then from host to host",
    ),
)
@copied_paths
@options_of("CopyFiles", "hosts", "overwrite", "make_folder")
@yes_option("Like --overwrite.")
@click.option("--recurse", "--recursive", "-r", is_flag=True, hidden=True)  # folders always are
@click.option("--zone", metavar="ZONE", shell_complete=complete_zone, help="The zone of the TPU.")
@project_option
@json_option
def copy(
    paths: tuple[str, ...],
    fields: dict[str, Any],
    yes: bool,
    recurse: bool,
    zone: str | None,
    as_json: bool,
) -> None:
    """Copy files and folders to a TPU, or from a TPU to this computer.

    Files that are there already, with the same size and time, are not sent again. A copy that was
    interrupted continues where it stopped when you repeat it.
    """
    from ..fleet.files.copy_requests import failure_of, summary

    parsed = parse(paths, zone)
    request = parsed.request(**fields)
    request.overwrite |= yes
    progress = _CopyProgress(progress_stream(as_json))
    started = time.monotonic()
    try:
        if acts_as_agent():
            copies = _copy_by_server(parsed, fields | {"overwrite": request.overwrite}, as_json)
        else:
            copies = _copy(parsed.tpu, request, progress)
    except TPUError as error:
        if error.reason is not Reason.NO_FOLDER or request.make_folder:
            raise
        raise TPUError(error.message, error.reason, "Add -p to create it.") from None
    if as_json:
        print_json(copies)
    else:
        if any(copy.state == "done" for copy in copies):
            seconds = time.monotonic() - started
            print(summary(parsed.tpu, request, copies, seconds))
        for host_copy in copies:
            _print_problems(host_copy, len(copies) > 1)
    failure = failure_of(parsed.tpu, copies)
    if failure is not None:
        raise failure


def _copy_by_server(parsed: Copy, fields: dict[str, Any], as_json: bool) -> list[HostCopy]:
    """An agent's copy: the server decides which TPUs and files it may use. Asks nothing."""
    import msgspec

    from ..fleet.models import CopyResult

    with open_session() as session:
        operation = copy_in_session(session, parsed, fields)
        ended = finish(session, operation, progress_stream(as_json))
    return msgspec.convert(ended.result, CopyResult).copies


def _copy(tpu: str, request: CopyFiles, progress: _CopyProgress) -> list[HostCopy]:
    """Asks before files are overwritten. Raises CANCELLED after Ctrl-C."""
    from ..files.copy.copying import FilesExist
    from ..links import core_thread

    def attempt() -> list[HostCopy]:
        work = copy_files(
            tpu,
            request,
            current_target(),
            report=progress.report,
            ended=progress.host_ended,
        )
        with progress:
            copies = core_thread().wait(work)
        exist = [copy for copy in copies if copy.problem and copy.problem.reason == Reason.EXISTS]
        if exist and not request.overwrite:
            hosts = hosts_text([host_copy.host for host_copy in exist])
            message = f"Files exist on {hosts} of {tpu}."
            raise FilesExist(message, [], 0)
        return copies

    try:
        try:
            return attempt()
        except FilesExist as error:
            if request.overwrite:
                raise
            for name in error.names if error.count > 1 else ():
                note(name)
            if error.count > len(error.names):
                note(f"… and {error.count - len(error.names)} more")
            them = "it" if error.count == 1 else "them"
            confirm(f"{error.message} Overwrite?", f"Add --overwrite to replace {them}.")
            request.overwrite = True
            return attempt()
    except KeyboardInterrupt:
        raise TPUError(
            "Interrupted. What was copied is kept.",
            Reason.CANCELLED,
            "Run the command again to continue.",
        ) from None


def _print_problems(copy: HostCopy, several: bool) -> None:
    where = f"host {copy.host}: " if several else ""
    for problem in copy.problems:
        note(f"{where}{problem.path}: {problem.message}")
    if copy.problem_count > len(copy.problems):
        more = count(copy.problem_count - len(copy.problems), "more file")
        note(f"{where}… and {more}")


class _CopyProgress:
    """Bytes of the first copy, then the hosts that have ended: a bar on a terminal, else lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Any = _bar(stream) if is_terminal(stream) else None
        self._task = self._bar.add_task("", total=None) if self._bar is not None else None
        self._next = time.monotonic() + _REPORT_SECONDS
        self._lock = threading.Lock()  # reports come from several threads

    def __enter__(self) -> None:
        if self._bar is not None:
            self._bar.start()

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def report(self, done: int, total: int) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.update(self._task, completed=done, total=total)
            elif time.monotonic() > self._next and done < total:
                self._next = time.monotonic() + _REPORT_SECONDS
                self._line(f"{size(done)} of {size(total)}")

    def host_ended(self, copy: HostCopy) -> None:
        with self._lock:
            if self._bar is not None:
                self._bar.update(self._task, description=f"host {copy.host}: {copy.state}")
            else:
                self._line(f"host {copy.host}: {copy.state}")

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def _bar(stream: TextIO) -> Any:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        BarColumn(bar_width=20),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=clean_console(stream, force_jupyter=False),
        transient=True,
        refresh_per_second=4,
    )


def parse(words: Sequence[str], zone: str | None = None) -> Copy:
    """The copy that SRC... NAME:DST, or NAME:SRC... DST, means; raises INVALID.

    >>> parse(["a b", "my-tpu:"])
    Copy(tpu='my-tpu', to_tpu=True, sources=['a b'], destination='')
    """
    if len(words) < 2:
        raise InvalidInput(
            "Nothing to copy to.", "Write SRC... NAME:DST, or NAME:SRC... DST with `.` for here."
        )
    *sources, destination = map(_remote, words)
    tpus = {tpu for tpu, _ in sources}
    to_tpu = bool(destination[0])
    if to_tpu == bool(tpus - {""}) or len(tpus) > 1:
        raise InvalidInput(
            "A copy is from this computer to one TPU, or from one TPU to this computer.",
            "Write NAME: before the path on the TPU, such as my-tpu:data, and ./ before a local "
            "path that has a colon.",
        )
    name = destination[0] or tpus.pop()
    if zone and "/" not in name and "~" not in name:
        name = f"{zone}~{name}"
    return Copy(name, to_tpu, [path for _, path in sources], destination[1])


def _remote(word: str) -> tuple[str, str]:
    """The TPU and the path; "" for this computer."""
    match = _REMOTE.fullmatch(word)
    if match is None:
        if not word:
            raise InvalidInput("A path is empty.", "Write `.` for the current folder.")
        return "", word
    return match[1], match[2] or "~"


async def copy_files(
    tpu: str,
    request: CopyFiles,
    target: Target,
    *,
    report: Report,
    ended: Callable[[HostCopy], None],
) -> list[HostCopy]:
    """Copies; returns each host's part. On the core thread.

    Raises `FilesExist`, and what `copying` raises.
    """
    from ..fleet.core.host_numbers import host_numbers
    from ..fleet.files.copy_requests import copy_files
    from ..links import default_links

    node, cloud = await find_node(tpu, target)
    if not node.endpoints:
        state = f"The TPU {node.name.node} is {node.state}."
        raise TPUError(state, Reason.CONFLICT, "This needs a READY TPU.")
    hosts = host_numbers(request.hosts, len(node.endpoints), node.name.node)
    if request.download and len(hosts) > 1:
        raise InvalidInput(
            "Files of several hosts would have the same names here.",
            "Give the number of one host, such as --worker 0.",
        )
    links = default_links(cloud.target)
    links.use_one_connection()
    await links.prepare(node)
    try:
        return await copy_files(links, node, hosts, request, report=report, ended=ended)
    finally:
        await links.close()


def copy_in_session(session: FleetSession, copy: Copy, fields: dict[str, Any]) -> Operation:
    """Starts the copy as an operation of the fleet; it continues when this process ends."""
    request = copy.request(**fields)
    if copy.to_tpu:
        request.sources = [_full(path) for path in request.sources]
    else:
        request.destination = _full(request.destination)
    return session.call(session.fleet.copies.start(copy.tpu, request))


def _full(path: str) -> str:
    """As another process takes it. A / at its end means a folder."""
    full = os.path.abspath(os.path.expanduser(path))
    return full + "/" if path.endswith("/") and full != "/" else full
