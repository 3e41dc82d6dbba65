"""Which tokens of this computer TPUs get; never a value."""

from __future__ import annotations

from msgspec import Struct


class Token(Struct, kw_only=True):
    """A variable that kernels, commands and jobs on TPUs get when they are started."""

    name: str
    #: Where its value is found now: "environment", or a file. "": nowhere, so they don't get it.
    source: str = ""
    #: What to do where it is not found.
    hint: str = ""


class PassTokens(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of a request to pass tokens on."""

    #: Of variables, such as HF_TOKEN.
    names: list[str]
