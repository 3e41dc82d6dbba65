"""What all models use: problems, times, checks of requests; operations; the fleet; the catalog."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from ... import catalog
from ...catalog import AcceleratorType, ChipPrice, UnknownType
from ...errors import InvalidInput, TPUError
from ...problem import Problem
from .operation_kinds import KindName


def timestamp(
    precision: Literal["milliseconds", "seconds"] = "milliseconds", at: float | None = None
) -> str:
    """The time now, or *at* so many seconds since the epoch."""
    time = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    return time.isoformat(timespec=precision).replace("+00:00", "Z")


def future_seconds(text: str, field: str, now: float, zone: tzinfo | None = None) -> float:
    """As `seconds_of`; raises INVALID for a time that has passed, too."""
    seconds = seconds_of(text, field, zone)
    if seconds <= now:
        raise InvalidInput(f"The time {text} has passed.", "Choose a later time.", field=field)
    return seconds


def seconds_of(text: str, field: str, zone: tzinfo | None = None) -> float:
    """The time *text* of a request's *field*, in seconds since the epoch.

    zone: that of a text without one; None: it needs one. Raises INVALID for what is not a time.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"The field {field} is not a time: {text!r}.",
            "Write it like 2026-07-01T08:00:00Z.",
            field=field,
        ) from None
    if time.tzinfo is None:
        if zone is None:
            raise InvalidInput(
                f"The field {field} has no time zone: {text}.",
                "Add Z for UTC, for example.",
                field=field,
            )
        time = time.replace(tzinfo=zone)
    return time.timestamp()


T = TypeVar("T", bound=msgspec.Struct)


def parse_request(model: type[T], body: bytes) -> T:
    """*body* (JSON) as a *model*; an empty body is the one with all defaults.

    Raises TPUError (INVALID) that names the field.
    """
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=model)
    except msgspec.ValidationError as error:
        raise _invalid(model, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidInput("The body is not valid JSON.") from None


def parse_query(model: type[T], values: Mapping[str, str | None]) -> T:
    """The values of a URL's query as a *model*; raises TPUError (INVALID) that names the field."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return msgspec.convert(given, model, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(model, error) from None


def validated(request: T) -> T:
    """The same request with its constraints enforced, for callers that built it in Python."""
    try:
        return msgspec.convert(msgspec.to_builtins(request), type(request))
    except msgspec.ValidationError as error:
        raise _invalid(type(request), error) from None


def _invalid(model: type[msgspec.Struct], error: msgspec.ValidationError) -> TPUError:
    what, _, place = str(error).partition(" - at `")
    of_key = place.startswith("key` in ")
    field = place.partition("$")[2].strip("`.")
    where = f"{field}." if field else ""
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        return InvalidInput(f"The field {where}{missing[1]} is missing.", field=missing[1])
    if unknown := re.match(r"Object contains unknown field `(\w+)`", what):
        return InvalidInput(f"The field {where}{unknown[1]} does not exist.")
    if not field:
        return InvalidInput(f"The body is not a {model.__name__}: {_lower(what)}.")
    meaning = _description(model, field, of_key=of_key) if "matching regex" in what else ""
    if meaning:
        subject = f"A name in {field}" if of_key else f"The {field}"
        sentence = f"{subject} is not allowed: it must be {meaning}."
    else:
        sentence = f"The field {field} is wrong: {_lower(what)}."
    return InvalidInput(sentence, field=field.rpartition(".")[2].partition("[")[0])


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _description(model: Any, path: str, *, of_key: bool) -> str:
    """The description in the annotation of a field, or of its keys; "" if there is none."""
    hint: Any = model
    for part in path.split("."):
        structs = [m for m in (hint, *typing.get_args(hint)) if _is_struct(m)]
        if not structs:
            return ""
        hint = typing.get_type_hints(structs[0], include_extras=True).get(part.split("[")[0])
    if of_key:
        hint = typing.get_args(hint)[0]
    described = (
        meta.description
        for part in _parts(hint)
        for meta in getattr(part, "__metadata__", ())
        if isinstance(meta, msgspec.Meta)
    )
    return next(filter(None, described), "")


def _parts(hint: Any) -> Iterator[Any]:
    """A type, and those that it is made of."""
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


class StopTrying(Struct, kw_only=True, forbid_unknown_fields=True):
    """Ends the attempts to delete a TPU; `keep_tpu` is required: it stays, and is billed."""

    keep_tpu: bool = False


class Step(Struct, kw_only=True):
    """One step of an operation, in words that a user understands."""

    title: str
    state: Literal["waiting", "running", "done", "failed", "skipped"] = "waiting"
    #: How many of its hosts have finished it.
    hosts_done: int = 0
    hosts: int = 0


class Operation(Struct, kw_only=True):
    """Anything that takes longer than a second, with progress, a log and an end."""

    id: str
    kind: KindName
    #: The TPU that it is about; "" if there is none.
    tpu: str = ""
    zone: str = ""
    state: Literal["running", "done", "failed", "cancelled"] = "running"
    #: What it is doing now.
    message: str = ""
    #: 0 to 1; None while it is not known.
    progress: float | None = None
    steps: list[Step] = []
    #: The last lines of its log (at most 1000).
    log: list[str] = []
    #: The id of the app that it opened.
    app: str = ""
    #: Why it failed; while it runs, what stands in its way.
    problem: Problem | None = None
    #: Whether it can be cancelled. What Google has begun to start, stop or delete continues.
    cancellable: bool = True
    #: "retrying": Google refuses the deletion, and it is retried until `stop-trying`. "kept": it is
    #: no longer retried, and the TPU is still there.
    undeleted: Literal["", "retrying", "kept"] = ""
    #: Its result, if it has one; the route that starts it describes it.
    result: dict[str, Any] | None = None
    created: str = ""
    ended: str = ""


class LoopStatus(Struct, kw_only=True):
    """One of the loops that keep TPUs as they should be. A failure ends none of them."""

    name: str
    #: Whether it failed a moment ago: it has to run for a while before it is trusted again.
    failing: bool = False
    failures: int = 0
    last_failure: str = ""  # when
    last_error: str = ""


class FailingTPU(Struct, kw_only=True):
    """Something that could not be done for one TPU, and is retried."""

    tpu: str
    zone: str
    what: str  # "Kernelspecs and links", "Host 0", "Tunnels"
    problem: Problem
    failures: int = 1  # in a row
    since: str = ""
    retry_at: str = ""


class FleetStatus(Struct, kw_only=True):
    """The project that is shown, and the health of what keeps it up to date."""

    project: str = ""
    emulated: bool = False
    #: The server's version of this package. A page of another version has to be loaded again.
    version: str = ""
    #: Why the list of TPUs may be out of date.
    problem: Problem | None = None
    #: Why the state of the TPUs can't be saved now. It is kept in memory and retried.
    storage: Problem | None = None
    loops: list[LoopStatus] = []
    #: TPUs that are not as they should be; the TPUs' own ``problem`` says it, too.
    failing: list[FailingTPU] = []


class Catalog(Struct, kw_only=True):
    types: list[AcceleratorType]
    zones: list[str]
    versions: list[str]
    project: str
    default_zone: str
    #: By the type's name: the default zone, or the nearest to it that offers the type.
    suggested_zones: dict[str, str]
    emulated: bool
    #: "google" or "emulator:<id>": tells another process whether it uses the same cloud.
    cloud: str = ""
    #: Why it may be incomplete or outdated.
    problem: Problem | None = None


def known_type(name: str) -> AcceleratorType | None:
    """A type as the catalog describes it; None if it is not there."""
    try:
        return catalog.accelerator_type(name)
    except UnknownType:
        return None


def image_warning(version: str, type: str) -> str:
    """A sentence about a runtime version with which JAX would find no TPU; "" of any other."""
    accelerator = known_type(type)
    if accelerator is None or catalog.image_fits(version, accelerator) is not False:
        return ""
    return (
        f"The runtime version {version} does not fit {type}: JAX would find no TPU. "
        f"{accelerator.version_of(catalog.api_of_version(version) or 'tpu')} fits."
    )


class PriceList(Struct, kw_only=True):
    """Prices per chip and hour, in USD. What is about to be created costs so much, about."""

    #: When Google's Cloud Billing Catalog was last read; "" if it never was: all are shipped ones.
    read: str = ""
    prices: list[ChipPrice]
    #: Descriptions of prices for TPUs that were not understood, so that they are not in *prices*.
    unknown: list[str] = []
