"""What is wrong with a request, said in one clear sentence before anything is done."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from .. import catalog
from ..catalog import AcceleratorType, UnknownType
from ..environment import pythons
from ..errors import Reason, TPUError
from .models import ConnectTPU, CreateTPU

T = TypeVar("T", bound=msgspec.Struct)


def parse(model: type[T], body: bytes) -> T:
    """*body* (JSON) as a *model*; an empty body is the one with all defaults.

    Raises TPUError (INVALID) that names the field.
    """
    try:
        return msgspec.json.decode(body.strip() or b"{}", type=model)
    except msgspec.ValidationError as error:
        raise _invalid(model, error) from None
    except msgspec.DecodeError:
        raise TPUError("The body is not valid JSON.", Reason.INVALID) from None


def checked(request: T) -> T:
    """The same request with its constraints enforced, for callers that built it in Python."""
    try:
        return msgspec.convert(msgspec.to_builtins(request), type(request))
    except msgspec.ValidationError as error:
        raise _invalid(type(request), error) from None


def _invalid(model: type[msgspec.Struct], error: msgspec.ValidationError) -> TPUError:
    what, _, path = str(error).partition(" - at `$")
    field = path.strip("`.")
    where = f"{field}." if field else ""
    if missing := re.match(r"Object missing required field `(\w+)`", what):
        return TPUError(f"The field {where}{missing[1]} is missing.", Reason.INVALID)
    if unknown := re.match(r"Object contains unknown field `(\w+)`", what):
        return TPUError(f"There is no field {where}{unknown[1]} here.", Reason.INVALID)
    if not field:
        return TPUError(f"The body is not a {model.__name__}: {_lower(what)}.", Reason.INVALID)
    meaning = _description(model, field) if "matching regex" in what else ""
    if meaning:
        return TPUError(f"The {field} is not allowed: it must be {meaning}.", Reason.INVALID)
    return TPUError(f"The field {field} is wrong: {_lower(what)}.", Reason.INVALID)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _description(model: Any, path: str) -> str:
    """What a field's annotation says about it; "" if nothing."""
    hint: Any = model
    for part in path.split("."):
        structs = [m for m in (hint, *typing.get_args(hint)) if _is_struct(m)]
        if not structs:
            return ""
        hint = typing.get_type_hints(structs[0], include_extras=True).get(part.split("[")[0])
    metas = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, msgspec.Meta)]
    return (metas[0].description or "") if metas else ""


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def modules(names: Iterable[str]) -> None:
    """Raises INVALID for what can't be the name of a Python module."""
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise TPUError(
                f"{name!r} is no name of a module.",
                Reason.INVALID,
                "Give what follows `import`, such as numpy.",
            )


# ---- creating ----------------------------------------------------------------------------------


def zone(wanted: str | None, default: str | None, known: Iterable[str]) -> str:
    """The zone to create in."""
    chosen = wanted or default
    known = sorted(known)
    if not chosen:
        raise TPUError(
            "No zone is given, and gcloud has no default zone.",
            Reason.INVALID,
            "Choose a zone, or set one with `gcloud config set compute/zone ZONE`.",
        )
    if chosen not in known:
        raise TPUError(
            f"There is no zone {chosen!r} with TPUs.{_did_you_mean(chosen, known)}",
            Reason.INVALID,
            f"Zones with TPUs: {', '.join(known)}.",
        )
    return chosen


def accelerator(wanted: str, in_zone: str, offered: Iterable[str]) -> AcceleratorType | None:
    """The type to create; None for one that Google offers there and the catalog does not know."""
    offered = set(offered)
    try:
        kind = catalog.accelerator_type(wanted)
    except UnknownType as error:
        if wanted in offered:
            return None
        raise TPUError(str(error), Reason.INVALID, _offers(in_zone, offered)) from None
    if wanted not in offered:
        elsewhere = ", ".join(z for z in kind.zones if z != in_zone)
        raise TPUError(
            f"{wanted} is not offered in {in_zone}"
            + (f"; it is in {elsewhere}." if elsewhere else "."),
            Reason.INVALID,
            _offers(in_zone, offered),
        )
    return kind


def version(wanted: str | None, kind: AcceleratorType | None, known: Iterable[str]) -> str:
    """The runtime image to create with: the type's own unless one is asked for."""
    if wanted is None:
        if kind is None:
            raise TPUError(
                "Which runtime version fits this type is not known here.",
                Reason.INVALID,
                "Choose a version.",
            )
        return kind.version
    known = {*known, *catalog.versions()}
    if wanted not in known:
        raise TPUError(
            f"There is no runtime version {wanted!r}.{_did_you_mean(wanted, known)}",
            Reason.INVALID,
            f"The usual one for {kind.name} is {kind.version}." if kind else "",
        )
    return wanted


def labels(wanted: CreateTPU) -> None:
    """Raises INVALID for labels that Google would refuse."""
    for key, value in wanted.labels.items():
        if not re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", key) or not re.fullmatch(
            r"[-_a-z0-9]{0,63}", value
        ):
            raise TPUError(
                f"The label {key}={value} is not allowed: keys and values have at most 63 "
                "lower-case letters, digits, hyphens and underscores, and keys start with a "
                "letter.",
                Reason.INVALID,
            )


def environment(wanted: ConnectTPU) -> None:
    """Raises INVALID for a Python or a package that no host could give."""
    pythons.check(wanted.python)
    requirements(wanted.packages)


def requirements(packages: Iterable[str]) -> None:
    """Raises INVALID for a package that would be read as an option or a second line."""
    for package in packages:
        if not package.strip() or package.lstrip().startswith("-") or "\n" in package:
            raise TPUError(
                f"{package!r} is not a package.",
                Reason.INVALID,
                "Write one requirement each, such as flax or optax>=0.2; options belong in a "
                "requirements file.",
            )


def _did_you_mean(wanted: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wanted.lower(), list(known), n=3, cutoff=0.6)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _offers(in_zone: str, offered: set[str]) -> str:
    known = [kind.name for kind in catalog.types() if kind.name in offered]
    if not known:
        return ""
    shown = ", ".join(known[:8])
    return f"{in_zone} offers {shown}{' and larger ones' if len(known) > 8 else ''}."
