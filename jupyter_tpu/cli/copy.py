"""``jupyter tpu copy``: files and folders to hosts, and from them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

import click

from ..agent_token import acts_as_agent
from ..commands.copy import Copy, copy_files, copy_in_session, parse
from ..commands.field_options import options_of
from ..commands.grammar import command, examples
from ..commands.parameters import complete_zone, copied_paths, project_option
from ..commands.session import current_target, open_session
from ..commands.tables import is_terminal, size
from ..commands.terminal import clean_console
from ..errors import Reason, TPUError
from ..wording import count, hosts_text
from .console import confirm, json_option, note, print_json, yes_option
from .waiting import finish, progress_stream

if TYPE_CHECKING:
    from ..fleet.models import CopyFiles, HostCopy

#: Seconds between two lines of progress where there is no terminal.
_PACE = 5.0


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
        self._next = time.monotonic() + _PACE
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
                self._next = time.monotonic() + _PACE
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
