"""Commands that work in every login shell of a host.

sshd hands a command to the user's login shell, of whatever kind, which reads files of the user
first. These may write, read, exec or exit. So a command is one line that all shells read alike. It
writes a mark before its output, and what comes before the mark is skipped. It gets its input after
the mark: a shell that never comes to the command would take the input for commands.
"""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache

from ..errors import Reason, TPUError
from ..on_host.agent.protocol.login_shell import ERRORS_MARK, GREETING_LIMIT, OUTPUT_MARK
from .address import HostAddress

#: Seconds in which a command has to begin.
START_LIMIT = 30.0

#: What it did if its output has ended without the mark.
ENDED = "ended or read the command"

#: Bytes of a login shell's last words that are kept.
_TAIL_BYTES = 2000
#: Characters that no shell changes inside of '…'; the others become escapes for printf. csh takes
#: 8000 bytes as a word.
_PLAIN = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    b""" "#$&()*+,./:;<=>?@[]^_`{|}~"""
)
_ESCAPES = {byte: f"\\{byte:03o}" for byte in range(256) if byte not in _PLAIN}
_WORD = re.compile(r"(?:\\[0-7]{3}|[^\\]){1,1500}")
_DECODE = """IFS=; s=$(printf "$*"); unset IFS; eval "$s\""""


def shell_line(script: str) -> str:
    """The line with which any login shell becomes `sh` with *script*.

    >>> shell_line("echo 'a'")
    "exec sh -c '...' sh 'echo \\\\047a\\\\047'"
    """
    encoded = script.encode("utf-8", "surrogateescape").decode("latin-1").translate(_ESCAPES)
    words = (f"'{word}'" for word in _WORD.findall(encoded))
    return f"exec sh -c '{_DECODE}' sh {' '.join(words)}"


@lru_cache(maxsize=4)  # all hosts of a TPU get the same
def marked_line(script: str) -> str:
    """:func:`shell_line` of a *script* that writes the marks first."""
    return shell_line(f"{_print(ERRORS_MARK)} >&2; {_print(OUTPUT_MARK)}; {script}")


def _print(mark: bytes) -> str:
    return "printf '" + mark.decode().replace("\x1e", "\\036") + "'"


class CommandStart:
    """Skips what comes before a command's output and errors; knows whether it has begun."""

    def __init__(self, host: HostAddress) -> None:
        self._host = host
        self._output = _Greeting(OUTPUT_MARK)
        self._errors = _Greeting(ERRORS_MARK)
        self._decided = asyncio.Event()

    @property
    def begun(self) -> bool:
        return self._output.over

    def output(self, data: bytes) -> bytes:
        """What of *data*, which came from its output, is the command's."""
        data = self._output.skip(data)
        if self._output.over or self._too_long:
            self._decided.set()
        return data

    def errors(self, data: bytes) -> bytes:
        """As :meth:`output`, of its errors."""
        data = self._errors.skip(data)
        if self._too_long:
            self._decided.set()
        return data

    def ended(self) -> None:
        """Its output has ended."""
        self._decided.set()

    async def wait(self) -> bool:
        """Whether it has begun, when that is known; raises LOGIN_SHELL after the time limit, or if
        the shell has written too much.
        """
        try:
            async with asyncio.timeout(START_LIMIT):
                await self._decided.wait()
        except TimeoutError:
            raise self._error(f"did not start a command within {START_LIMIT:g} s") from None
        if self._too_long:
            raise self._error(f"wrote more than {GREETING_LIMIT >> 20} MB before the command")
        return self.begun

    def failure(self) -> TPUError:
        """Why it has not begun, though its output has ended."""
        return self._error(ENDED)

    @property
    def _too_long(self) -> bool:
        return self._output.too_long or self._errors.too_long

    def _error(self, what: str) -> TPUError:
        said = self._errors.last_line or self._output.last_line
        return login_shell_error(self._host.user, self._host.label, what, said)


def login_shell_error(user: str, host: str, what: str, said: str = "") -> TPUError:
    """The error for a login shell that did not come to its command; *said*: its last words."""
    return TPUError(
        f"The login shell or ~/.bashrc of {user} on {host} {what}{f': {said}' if said else ''}.",
        Reason.LOGIN_SHELL,
        "A login shell must run commands that it is given. Let ~/.bashrc (or ~/.zshenv, ~/.cshrc) "
        "do nothing in shells that are not interactive: begin it with "
        "`case $- in *i*) ;; *) return;; esac`.",
    )


class _Greeting:
    """All that comes before *mark* in one stream."""

    def __init__(self, mark: bytes) -> None:
        self.over = False
        self._mark = mark
        self._size = 0
        self._tail = b""

    @property
    def too_long(self) -> bool:
        return not self.over and self._size > GREETING_LIMIT

    @property
    def last_line(self) -> str:
        """What it ended with, as text for a message."""
        if self.over:
            return ""
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()[-1:]
        return "".join(filter(str.isprintable, "".join(lines)))[:300].rstrip(".")

    def skip(self, data: bytes) -> bytes:
        if self.over:
            return data
        self._size += len(data)
        seen = self._tail + data
        at = seen.find(self._mark)
        if at < 0 or self.too_long:
            self._tail = seen[-_TAIL_BYTES:]
            return b""
        self.over = True
        return seen[at + len(self._mark) :]
