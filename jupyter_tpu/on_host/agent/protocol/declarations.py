"""How records and requests are declared: as classes with typed fields; see `requests`."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Dict,
    Generic,
    List,
    Type,
    TypeVar,
    Union,
    cast,
    get_type_hints,
)

if TYPE_CHECKING:
    from typing import TypedDict as Record
    from typing import dataclass_transform
else:

    class Record:
        """An object of JSON. Its annotations are not evaluated here, which would take a while."""

        def __init_subclass__(cls, total=True): ...

    def dataclass_transform(**options):
        return lambda kind: kind


Answer = TypeVar("Answer")


def declared_records() -> List[Any]:
    """All records, each after those that it has in its fields."""
    return cast("Any", Record).__subclasses__()


class InvalidRequest(Exception):
    """The message says why."""


@dataclass_transform(kw_only_default=True)
class ProtocolRequest(Generic[Answer]):
    """A request with these fields; one without a default is required. `answer`: its type.

    Class arguments: ``op``, its name; ``changes``, whether clients that wait in `GetStatusRequest`
    are answered after it.
    """

    op: ClassVar[str]
    changes: ClassVar[bool]
    answer: ClassVar[Any]
    #: On the host, the connection on which it came.
    client = cast("Any", None)

    def __init_subclass__(cls, op: str, changes: bool = False) -> None:
        cls.op, cls.changes = op, changes
        cls.answer = cls.__dict__["__orig_bases__"][0].__args__[0]

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    @property
    def params(self) -> Dict[str, Any]:
        """The fields that were given."""
        return vars(self)


Requests = Dict[str, Type[ProtocolRequest[Any]]]


def find_requests(names: Dict[str, Any]) -> Requests:
    """The requests among the *names* of a module, by their ops."""
    kinds = [name for name in names.values() if isinstance(name, type)]
    return {
        kind.op: kind
        for kind in kinds
        if issubclass(kind, ProtocolRequest) and kind is not ProtocolRequest
    }


def parse(requests: Requests, op: Any, params: Any) -> ProtocolRequest[Any]:
    """The request *op* with these fields, as JSON has them. Raises InvalidRequest."""
    kind = requests.get(op) if isinstance(op, str) else None
    if kind is None:
        raise InvalidRequest("The daemon has no operation %r." % (op,))
    if not isinstance(params, dict):
        raise InvalidRequest("The parameters of %s are not an object." % op)
    hints = {
        name: hint
        for name, hint in get_type_hints(kind).items()
        if getattr(hint, "__origin__", None) is not ClassVar
    }
    for name in params:
        if name not in hints or not _fits(params[name], hints[name]):
            raise InvalidRequest("%s has an invalid parameter: %s." % (op, name))
    missing = [name for name in hints if name not in params and not hasattr(kind, name)]
    if missing:
        raise InvalidRequest("%s lacks a parameter: %s." % (op, missing[0]))
    return kind(**params)


def _fits(value: Any, kind: Any) -> bool:
    """Whether JSON's *value* is of this type; the fields of an object are not looked at."""
    origin, args = getattr(kind, "__origin__", None), list(getattr(kind, "__args__", ()))
    if kind is Any:
        return True
    if origin is Union:
        return any(_fits(value, arg) for arg in args)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, args[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, args[1]) for item in value.values())
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, (int, float))
    return isinstance(value, dict if kind in declared_records() else kind)
