"""What the daemon of a host may say: the declarations of `agent.protocol`, with bounds.

There the annotations name kinds of values, such as ``Id``. Here they are evaluated with
`host_values`, where these have bounds. `DaemonClient` checks each answer before anyone sees it.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from functools import cache
from typing import Any, TypedDict

from msgspec import Meta

from ..errors import Reason
from ..on_host.agent.protocol.declarations import declared_records
from ..on_host.agent.protocol.records import Owner
from ..on_host.agent.protocol.requests import OwnerList
from . import host_values
from .host_values import InvalidAnswer, checked

_SYNTAX = "Annotated", "Dict", "List", "Literal", "NotRequired", "Optional", "Tuple"


def checked_record(value: Any, kind: Any, what: str) -> Any:
    """*value* as *kind*, a declaration of `records` or `requests`. Raises InvalidAnswer."""
    return checked(value, bounded(kind), what)


def bounded(kind: Any) -> Any:
    """*kind* as `host_values.checked` takes it."""
    return _bounded()[kind.__name__]


@cache
def _bounded() -> dict[str, Any]:
    """All records by their names. Raises NameError for a kind of value without bounds."""
    names: dict[str, Any] = {
        **{name: getattr(typing, name) for name in _SYNTAX},
        **vars(host_values),
        "Bounds": Meta,
        "Reason": Reason,
    }
    for kind in declared_records():
        fields = {name: eval(text, names) for name, text in kind.__annotations__.items()}
        names[kind.__name__] = TypedDict(kind.__name__, fields)  # type: ignore[operator]
    return names


def owners_by_pid(pids: Sequence[int], answer: OwnerList) -> dict[int, Owner]:
    """The answer of `GetProcessOwnersRequest` to these *pids*. Raises InvalidAnswer."""
    if len(answer["owners"]) != len(pids):
        raise InvalidAnswer("process_owners", f"Expected {len(pids)} owners")
    return dict(zip(pids, answer["owners"], strict=True))
