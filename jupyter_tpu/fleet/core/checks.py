"""Checks of a request beyond its form, before anything is done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from zoneinfo import available_timezones

from ...cloud import OWN_LABELS, Node, Tier
from ...environment import HostSetup, locks, pythons
from ...environment.requirement_lines import check_requirement_lines
from ...errors import InvalidInput, Reason, TPUError
from ..models import ConnectTPU, CreateTPU
from ..models.core import known_type
from .records import EnvironmentRecord

#: NAME, NAME:ARCHITECTURE, or one of these with =VERSION (deb-control(5), deb-version(7)).
_APT_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(:[a-z0-9-]+)?(=[A-Za-z0-9.+:~-]+)?", re.ASCII)
_TIMEZONE = re.compile(r"[A-Za-z][\w+-]*(/[A-Za-z][\w+-]*){0,2}", re.ASCII)
#: Bytes. It is kept with the environment, and is a part of what describes a TPU.
LONGEST_SCRIPT = 64 * 1024

#: The generations that Google offers as flex-start (cloud.google.com/tpu/docs/
#: request-using-flex-start): those of the Cloud TPU API, and others that Compute Engine has.
_FLEX_START = ("v5e", "v6e")
_COMPUTE_FLEX_START = ("v5p", "v6e", "tpu7x")
_LONGEST_RUN = 7 * 86_400  # seconds, as Google has it


def check_run(request: CreateTPU) -> None:
    """Raises INVALID for flex-start of a type that has none, and as `check_run_for`."""
    check_run_for(request.run_for, request.tier)
    accelerator = known_type(request.type) if request.tier == "flex-start" else None
    generation = accelerator.generation if accelerator is not None else ""
    if not generation or generation in (*_FLEX_START, *_COMPUTE_FLEX_START):
        return
    raise InvalidInput(
        f"Google offers flex-start for {', '.join((*_FLEX_START, 'v5p and tpu7x'))}, not for "
        f"{request.type}.",
        "Choose a type of these generations, or another tier.",
        field="type",
    )


def check_api(request: CreateTPU) -> None:
    """Raises INVALID for what the control plane that is to make it does not offer."""
    if request.reservation and request.tier != "reserved":
        raise InvalidInput(
            "Only a TPU of the tier reserved can use a reservation.",
            "Choose that tier (--reserved), or omit the reservation.",
            field="reservation",
        )
    if request.api == "compute":
        if request.tier == "reserved" and not request.reservation:
            raise InvalidInput(
                "Compute Engine needs the name of the reservation.",
                "Give it with --reservation. `jupyter tpu reservation list` shows yours.",
                field="reservation",
            )
        return
    if request.reservation:
        raise InvalidInput(
            "The Cloud TPU API takes the name of a reservation for queued resources only.",
            "Omit it to use your project's, or use `jupyter tpu queued create`, or Compute Engine "
            "(--api compute).",
            field="reservation",
        )
    if request.disk_gb is not None:
        raise InvalidInput(
            "The Cloud TPU API does not let you choose the size of the boot disk.",
            "Omit it, or attach a disk with --data-disk.",
            field="disk_gb",
        )
    accelerator = known_type(request.type) if request.tier == "flex-start" else None
    if accelerator is not None and accelerator.generation not in _FLEX_START:
        raise InvalidInput(
            f"The Cloud TPU API offers flex-start for {' and '.join(_FLEX_START)}, not for "
            f"{request.type}.",
            "Choose Compute Engine (--api compute), a type of these generations, or another tier.",
            field="type",
        )


def check_run_for(run_for: float | None, tier: Tier) -> None:
    """Raises INVALID for flex-start without the time that it runs (seconds), for a time that Google
    does not allow, and for a time without flex-start.
    """
    if tier != "flex-start":
        if run_for is not None:
            raise InvalidInput(
                "Only a flex-start TPU can have a run time.",
                "Omit it, or choose flex-start.",
            )
    elif run_for is None:
        raise InvalidInput(
            "A flex-start TPU needs a run time.",
            "Set it, for example --run-for 4h. Google deletes the TPU after that time.",
            field="run_for",
        )
    elif not 60 <= run_for <= _LONGEST_RUN:
        raise InvalidInput(
            "The run time of a flex-start TPU must be 1 minute to 7 days.",
            "Choose a time such as 4h or 2d.",
            field="run_for",
        )


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises INVALID for labels that Google would refuse, and for those that say what this program
    knows of a TPU: its owner, for example.
    """
    for key, value in labels.items():
        if key.startswith(OWN_LABELS):
            raise InvalidInput(
                f"The label {key} is not allowed: jupyter-tpu sets the labels that begin with "
                f"{OWN_LABELS} itself.",
                "Choose another key.",
                field="labels",
            )
        if not re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", key) or not re.fullmatch(
            r"[-_a-z0-9]{0,63}", value
        ):
            raise InvalidInput(
                f"The label {key}={value} is not allowed: keys and values have at most 63 "
                "lower-case letters, digits, hyphens and underscores, and keys start with a "
                "letter.",
                field="labels",
            )


def check_environment(request: ConnectTPU) -> None:
    """Raises INVALID for a Python that JAX does not run on, or for what can't be a package."""
    pythons.check(request.python)
    check_requirements(request.packages)
    for what, text in (("requirements", request.requirements), ("lock", request.lock)):
        _check_text(f"{what} file", text)
        check_requirement_lines(text or "", f"The {what} file")
    locks.check(request.lock, request.python)
    check_setup(request.setup)
    path = request.python_path
    if path is None:
        return
    if not re.match(r"(/|~/.)", path) or not path.isprintable():
        raise InvalidInput(
            f"{path!r} is not the path of a Python on a host.",
            "Give an absolute path or one that begins with ~/, such as ~/venv.",
        )
    if request.python or request.packages or request.requirements or request.setup.requested:
        raise InvalidInput(
            "An environment that is on the hosts is used as it is: it has its own Python version "
            "and packages.",
            "Omit python, packages, requirements and setup.",
        )


def check_same_python(before: EnvironmentRecord, request: ConnectTPU) -> None:
    """Raises CONFLICT where a name would mean another Python than *before*."""
    if before.is_existing and before.environment.state == "failed":
        return  # nothing is lost
    own = request.python or request.packages or request.requirements
    if before.is_existing and own:
        raise TPUError(
            f"The environment {request.environment} was found on the hosts, so its packages are "
            "not changed.",
            Reason.CONFLICT,
            "Choose another name to create an environment.",
        )
    if request.python_path not in (
        None,
        before.request.python_path,
        before.environment.python_path,
    ):
        raise TPUError(
            f"There is an environment {request.environment} already.",
            Reason.CONFLICT,
            "Choose another name.",
        )


def check_requirements(packages: Iterable[str]) -> None:
    """Raises INVALID for a package that would be read as an option or more than one line."""
    for package in packages:
        plain = package.strip()
        if not plain or plain.startswith("-") or not plain.isprintable():
            raise InvalidInput(
                f"{package!r} is not a package.",
                "Write one requirement each, such as flax or optax>=0.2; options belong in a "
                "requirements file.",
                field="packages",
            )


def check_setup(setup: HostSetup) -> None:
    """Raises INVALID for what can't be a package of apt, a time zone or a script."""
    for package in setup.apt:
        if not _APT_PACKAGE.fullmatch(package):
            raise InvalidInput(
                f"{package!r} is not a package of apt.",
                "Write one name each, such as ffmpeg or zsh=5.8.1-1.",
                field="apt",
            )
    if setup.timezone:
        _check_timezone(setup.timezone)
    _check_text("setup script", setup.script)
    size = len(setup.script.encode())
    if size > LONGEST_SCRIPT:
        raise InvalidInput(
            f"The setup script is {size / 1024:.0f} KiB; it can have {LONGEST_SCRIPT // 1024} KiB.",
            "Let it download its files, or copy them with `jupyter tpu copy` first.",
            field="script",
        )


def _check_text(what: str, text: str | None) -> None:
    if text and "\0" in text:
        raise InvalidInput(f"The {what} has a NUL character, so it is not a text file.")


def _check_timezone(name: str) -> None:
    known = available_timezones()  # none where this computer has no list of them
    if name in known or (not known and _TIMEZONE.fullmatch(name)):
        return
    meant = get_close_matches(name, known, 1)
    raise InvalidInput(
        f"{name!r} is not a time zone.",
        f"Did you mean {meant[0]}?" if meant else "Write it like Europe/Berlin or UTC.",
        field="timezone",
    )


def check_names(names: Iterable[str]) -> None:
    """Raises INVALID for what can't be the name of a package."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?", name):
            raise InvalidInput(f"{name!r} is not the name of a package.")


def another_node(node: Node, id: str) -> TPUError | None:
    """What to say of a *node* that has the name of the one that is meant, but not its *id*."""
    if not id or node.id == id:
        return None
    return TPUError(
        f"{node.name.node} was deleted. A new TPU has the same name.",
        Reason.CONFLICT,
        "Check in the list of TPUs whether that is the one you want.",
    )
