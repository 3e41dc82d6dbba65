"""What a host says is checked where it enters, by type. These are the types, and the check.

A host is not trusted: whoever is root there can send anything. A message is declared as a
`TypedDict` or a `Struct` of these types, and `checked` is the one function that compares. Text is
only bounded here: it may have any characters, and is cleaned where it is shown. What the agent
says is declared in `agent.protocol`, what programs say where they are called (`links.host_calls`).
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ..errors import Reason, TPUError

#: The ID of a kernel, job or run. It names files and folders here, so it can't be a path.
Id = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")]
#: The same, or "" for none.
AnyId = Annotated[str, Meta(pattern=r"\A([A-Za-z0-9][A-Za-z0-9_.-]{0,127})?\Z")]
#: A state or another word that programs compare; "" for none.
Word = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_.-]{0,64}\Z")]
#: Printable ASCII, such as a key or a version.
Token = Annotated[str, Meta(pattern=r"\A[ -~]{0,512}\Z")]
#: A time as RFC 3339 has it; "" for none.
Time = Annotated[str, Meta(pattern=r"\A[0-9TZ:.+ -]{0,40}\Z")]
#: A path on the host; "" for none.
HostPath = Annotated[str, Meta(pattern=r"\A(/[^\0-\x1f\x7f]{0,4095})?\Z")]
#: An IPv4 or IPv6 address; "" for none.
Address = Annotated[str, Meta(pattern=r"\A[0-9A-Fa-f.:]{0,64}\Z")]
#: A package to install, never an option: it is installed on other hosts, too.
Requirement = Annotated[str, Meta(pattern=r"\A[^-\s\x00-\x1f\x7f][^\x00-\x1f\x7f]{0,4095}\Z")]
#: A name, a notebook's path or a line of a message.
Line = Annotated[str, Meta(max_length=16 << 10)]
#: A message or output of more than one line.
Text = Annotated[str, Meta(max_length=1 << 20)]
Pid = Annotated[int, Meta(ge=0, le=1 << 31)]
Count = Annotated[int, Meta(ge=0, le=1 << 62)]
#: Seconds since 1970, before the year 10000.
Timestamp = Annotated[float, Meta(ge=-(1 << 31), le=253402300799)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
#: The number of a chip, and those of a kernel.
Chip = Annotated[int, Meta(ge=0, le=1023)]
Chips = Annotated[list[Chip], Meta(max_length=1024)]
Lines = Annotated[list[Line], Meta(max_length=100_000)]


class InvalidAnswer(TPUError):
    """A host said something that can't be: a bug there, or someone who is root has changed it."""

    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(
            f"The host sent an invalid answer ({what}: {problem}).",
            Reason.UNAVAILABLE,
            "Restart the TPU. If that does not help, programs on the host may have been changed: "
            "delete the TPU.",
        )

    def __reduce__(self):
        return type(self), (self.what, self.problem)


def checked(value: Any, kind: Any, what: str) -> Any:
    """*value* as *kind*, without fields that *kind* does not have.

    what: the message that it is. Raises InvalidAnswer, which repeats nothing of the value.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidAnswer(what, str(error)) from None


def decode(data: bytes, kind: Any, what: str) -> Any:
    """The JSON in *data* as a *kind*. Raises InvalidAnswer."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
        raise InvalidAnswer(what, str(error)) from None


def decoded(line: bytes | bytearray, what: str) -> dict[str, Any]:
    """The JSON object of a line. Raises InvalidAnswer.

    A name on a host need not be UTF-8, and Python writes its other bytes as surrogates: they become
    "�", since JSON that we send on can't have them. NaN and infinity become null.
    """
    try:
        value = json.loads(line, parse_constant=lambda name: None)
        if b"\\ud" in line or b"\\uD" in line:
            value = json.loads(
                json.dumps(value, ensure_ascii=False)
                .encode("utf-16", "surrogatepass")
                .decode("utf-16", "replace")
            )
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(what, type(error).__name__) from None
    if not isinstance(value, dict):
        raise InvalidAnswer(what, f"Expected `object`, got `{type(value).__name__}`")
    return value
