"""What `jupyter tpu doctor --report` writes: a text to attach to a bug report, without names.

It has versions, what doctor has found, the states of TPUs and operations, and the end of
jupyter-tpu's own log. Names of projects, TPUs, hosts and people become `TPU-1`, `user-1` …, the
same throughout; addresses, paths and what looks like a secret are left out.
"""

from __future__ import annotations

import contextlib
import getpass
import ipaddress
import os
import platform
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TPUError
from ..own_log import HIDDEN, LogLine, without_secrets

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation
    from ..terminal.session import FleetSession

#: So many of the last lines of the log are in it.
LOG_LINES = 1000
_PACKAGES = (
    *("asyncssh", "click", "cryptography", "google-cloud-tpu", "grpcio", "ipykernel", "jax"),
    *("jupyter_client", "jupyter_server", "jupyterlab", "msgspec", "notebook", "pyzmq", "tornado"),
)
#: Names that many have.
_PUBLIC_NAMES = frozenset(("emulated", "jovyan", "localhost", "root", "ubuntu", "user"))
_PUBLIC_ADDRESSES = frozenset(("127.0.0.1", "0.0.0.0", "::1", "::"))
_PUBLIC_SITES = re.compile(
    r"(localhost|127\.0\.0\.1|([\w-]+\.)*(google\.com|googleapis\.com|github\.com|pypi\.org))"
    r"(?![\w.-])"
)
#: Folders of the system, whose files have no names of people.
_SYSTEM = ("/bin/", "/dev/", "/etc/", "/lib/", "/proc/", "/sbin/", "/sys/", "/usr/")
_SECRET_NAMES = re.compile(r"(?i)token|secret|passw|credential|_key$|apikey")


class NameCleaner:
    """Replaces private names in texts, each always by the same word."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}  # by name, in lower case
        self._counts: dict[str, int] = {}
        self._secrets: dict[str, str] = {}

    def add(self, kind: str, names: Iterable[str | None]) -> None:
        """Names of a *kind* such as "TPU"."""
        for name in names:
            known = (name or "").strip().lower()
            if len(known) > 1 and known not in self._words and known not in _PUBLIC_NAMES:
                self._counts[kind] = self._counts.get(kind, 0) + 1
                self._words[known] = f"{kind}-{self._counts[kind]}"

    def add_secrets(self, secrets: Mapping[str, str]) -> None:
        """Values, with the names that are shown for them."""
        self._secrets |= secrets

    def clean(self, text: str) -> str:
        text = without_secrets(text, self._secrets)
        text = re.sub(r"SHA256:[\w+/=]{20,}", HIDDEN, text)
        text = re.sub(r"\b[\w.+-]+@[\w-]+(\.[\w-]+)+", "[e-mail]", text)
        text = re.sub(r"\b(https?|wss?)://[^\s\"'<>]+", _site, text)
        text = self._without_paths(text)
        if self._words:
            names = "|".join(map(re.escape, sorted(self._words, key=len, reverse=True)))
            found = re.compile(f"(?<![A-Za-z0-9])({names})(?![A-Za-z0-9])", re.IGNORECASE)
            text = found.sub(lambda match: self._words[match[0].lower()], text)
        text = re.sub(r"\bt1v-n-\w+(-w-\d+)?", "[host]", text)
        text = re.sub(r"\b[\w.-]+\.(internal|local|lan|localdomain|corp|home)\b", "[host]", text)
        text = re.sub(r"(?<![\w.])(\d{1,3}\.){3}\d{1,3}(?!\w)|[0-9A-Fa-f:]{2,}", _address, text)
        text = re.sub(r"(?<![\w.])\d{10,}(?![\w.])", "[number]", text)
        return re.sub(r"(?<![\w/+-])[\w+/-]{40,}={0,2}", HIDDEN, text)

    def _without_paths(self, text: str) -> str:
        for home in {str(Path.home()), os.path.realpath(Path.home())} - {"/", "/root"}:
            text = text.replace(home, "~")
        text = re.sub(r"\b[A-Za-z]:\\[^\s\"'<>|]+", "[path]", text)
        text = re.sub(r"(?<![\w/])~/(?!\.)[^\s\"'<>,;:]+", "[path]", text)
        return re.sub(r"(?<![\w.:/~\]])/[\w.@+~-]+(/[\w.@+~-]*)+", _path, text)


def _path(match: re.Match[str]) -> str:
    for inside in ("/site-packages/", "/jupyter_tpu/"):
        if inside in match[0]:
            return "…" + inside + match[0].rpartition(inside)[2]
    return match[0] if match[0].startswith(_SYSTEM) else "[path]"


def _site(match: re.Match[str]) -> str:
    return match[0] if _PUBLIC_SITES.match(match[0].partition("://")[2]) else "[URL]"


def _address(match: re.Match[str]) -> str:
    try:
        ipaddress.ip_address(match[0])
    except ValueError:
        return match[0]
    return match[0] if match[0] in _PUBLIC_ADDRESSES else "[address]"


def bug_report(session: FleetSession, diagnosis: str) -> str:
    """The text. diagnosis: what doctor has found."""
    from ..own_log import read

    problems: list[str] = []
    lines = _answer(lambda: read()[0][-LOG_LINES:], [], problems)
    tpus = _answer(lambda: list(session.tpus().tpus), [], problems)
    operations = _answer(lambda: list(session.call(session.fleet.operations.list())), [], problems)
    sections = {
        "Versions": _versions(),
        "Doctor": diagnosis,
        "TPUs": "\n".join(map(_tpu, tpus)) or "none",
        "Operations": "\n".join(map(_operation, operations)) or "none",
        "Not known": "\n".join(problems),
        f"Log of jupyter-tpu: the last {len(lines)} lines": "\n".join(map(str, lines)),
    }
    text = "\n\n".join(f"{title}\n\n{part}" for title, part in sections.items() if part)
    return _cleaner(session, tpus, operations, lines).clean(text) + "\n"


def _answer(ask: Callable[[], Any], otherwise: Any, problems: list[str]) -> Any:
    try:
        return ask()
    except TPUError as error:
        problems.append(str(error))
        return otherwise


def _versions() -> str:
    from ..version import __version__

    lines = [f"jupyter-tpu {__version__}", f"Python {platform.python_version()}"]
    lines.append(f"{platform.system()} {platform.release()} {platform.machine()}")
    for package in _PACKAGES:
        try:
            lines.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    settings = sorted(name for name in os.environ if name.startswith("JUPYTER_TPU_"))
    return "\n".join([*lines, f"Set: {', '.join(settings) or 'nothing'}"])


def _tpu(tpu: TPU) -> str:
    links = ", ".join(f"host {host.index}: {host.link.state.value}" for host in tpu.hosts)
    environments = ", ".join(
        f"{one.state}, Python {one.python}, {one.framework_version}" for one in tpu.environments
    )
    problem = f". {tpu.problem.message}" if tpu.problem is not None else ""
    return (
        f"{tpu.name}: {tpu.type}, {tpu.tier}, {tpu.zone}, {tpu.state}, {tpu.connection.value}"
        f"{' (emulated)' if tpu.emulated else ''}. Links: {links or 'none'}. "
        f"Environments: {environments or 'none'}{problem}"
    )


def _operation(operation: Operation) -> str:
    steps = "; ".join(f"{step.title}: {step.state}" for step in operation.steps)
    problem = f". {operation.problem.message}" if operation.problem is not None else ""
    return (
        f"{operation.created} {operation.id} {operation.kind} {operation.tpu}: {operation.state}"
        f"{f' ({steps})' if steps else ''}{problem}"
    )


def _cleaner(
    session: FleetSession,
    tpus: Iterable[TPU],
    operations: Iterable[Operation],
    lines: Iterable[LogLine],
) -> NameCleaner:
    """It knows the names that this computer, the fleet and the log have."""
    from ..cloud import gcloud
    from ..ssh.keys import USER_VARIABLE
    from ..terminal.session import current_target
    from ..tokens import known_secrets

    cleaner = NameCleaner()
    target = current_target()
    project = _answer(lambda: session.call(session.fleet.catalog()).project, "", [])
    cleaner.add("project", [project, target.project, gcloud.project(os.environ)])
    cleaner.add("project", (tpu.project for tpu in tpus))
    cleaner.add("TPU", (tpu.name for tpu in tpus))
    cleaner.add("TPU", (operation.tpu for operation in operations))
    cleaner.add("TPU", (line.tpu for line in lines))
    cleaner.add("queued", (tpu.queued for tpu in tpus))
    for tpu in tpus:
        aliases = tpu.details.get("ssh", ())
        cleaner.add("host", [*aliases, *(alias.rpartition("@")[2] for alias in aliases)])
        for host in tpu.hosts:
            cleaner.add("host", [host.internal_address, host.external_address])
    node = platform.node()
    cleaner.add("host", [node, node.partition(".")[0], socket.gethostname()])
    with contextlib.suppress(KeyError, OSError):  # a user without a name
        cleaner.add("user", [getpass.getuser()])
    variables = ("USER", "LOGNAME", "USERNAME", "SUDO_USER", USER_VARIABLE)
    cleaner.add("user", [*map(os.environ.get, variables), Path.home().name])
    cleaner.add("user", (tpu.owner for tpu in tpus))
    cleaner.add_secrets(known_secrets())
    cleaner.add_secrets(
        {
            value: name
            for name, value in os.environ.items()
            if _SECRET_NAMES.search(name) and len(value) >= 6
        }
    )
    return cleaner
