"""``jupyter tpu describe``: a TPU with its hosts, environments and running kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import TPUError
from ..terminal.costs import hourly, running_for, so_far
from ..terminal.grammar import command
from ..terminal.parameters import tpu_argument
from ..terminal.printing import formatted, json_option, note
from ..terminal.session import FleetSession, open_session, tpu_ref
from ..terminal.tables import Styled, problem_text, state_text, table, type_and_meaning
from ..terminal.times import run_text
from ..terminal.watching import watch as watch_changes
from ..terminal.watching import watch_option
from ..wording import phrase
from .doctor import numbered
from .guard import countdown
from .losses import running_kernels
from .share import shares_text

if TYPE_CHECKING:
    from ..fleet.models import (
        TPU,
        Environment,
        Kernel,
        SharedFolders,
        WarmKernel,
    )


@command("describe")
@tpu_argument()
@watch_option
@json_option
def describe(name: str, watch: bool, as_json: bool) -> None:
    """Show a TPU's hosts, environments, shared folders and running kernels."""

    def look() -> str:
        tpu = session.call(session.fleet.tpu(name))
        if tpu.shares is None and tpu.connection.value == "connected":
            tpu.shares = _shared_folders(session, tpu)
        if as_json:
            return formatted(tpu)
        return description(tpu, running_kernels(session, tpu))

    with open_session() as session:
        if watch:
            watch_changes(session, look, lambda: False)
        else:
            print(look())


def _shared_folders(session: FleetSession, tpu: TPU) -> SharedFolders | None:
    """What its hosts say; None if they can't be asked now."""
    try:
        return session.call(session.fleet.shares.list(tpu_ref(tpu)))
    except TPUError as error:
        note(f"Can't list the shared folders of {tpu.name}: {error.message}")
        return None


def description(tpu: TPU, kernels: Sequence[Kernel]) -> str:
    """A TPU with its hosts, environments and running kernels, as text for stdout."""
    title = Styled(tpu.name, "bold").append("  (emulated)" if tpu.emulated else "")
    parts = [f"{title.render()}\n{_facts(tpu)}"]
    if tpu.hosts:
        rows = [
            (
                str(host.index),
                host.internal_address,
                host.external_address,
                state_text(host.link.state.value),
                problem_text(host.link.problem),
            )
            for host in tpu.hosts
        ]
        parts.append(table(("HOST", "INTERNAL", "EXTERNAL", "LINK", "PROBLEM"), rows))
    if tpu.environments:
        environments = [
            (
                environment.name,
                state_text(environment.state),
                environment.python,
                environment.framework_version,
                environment.display_name,
                _warm(environment.warm),
                environment.path,
            )
            for environment in tpu.environments
        ]
        heads = ("ENVIRONMENT", "STATE", "PYTHON", "FRAMEWORK", "KERNEL", "WARM KERNEL", "PATH")
        lines = [line for environment in tpu.environments for line in _versions(environment)]
        parts.append("\n".join([table(heads, environments), *lines]))
    if tpu.shares is not None and (tpu.shares.folders or tpu.shares.problems):
        asked = f"(asked at {tpu.shares.time})"
        parts.append("\n".join([shares_text(tpu.shares), *tpu.shares.problems, asked]))
    if kernels:
        running = [(k.id, k.state, k.environment, str(k.pid or ""), k.notebook) for k in kernels]
        parts.append(table(("RUNNING KERNEL", "STATE", "ENVIRONMENT", "PID", "NOTEBOOK"), running))
    return "\n\n".join(parts)


def _facts(tpu: TPU) -> str:
    facts: list[tuple[str, str | Styled]] = [
        ("reached by", _reached_by(tpu)),
        ("type", type_and_meaning(tpu)),
        ("zone", tpu.zone),
        ("project", "" if tpu.attached else tpu.project),
        ("state", state_text(tpu.state).append(_state_details(tpu))),
        ("", tpu.advice),
        ("owner", phrase(f"{tpu.owner} (not you)") if tpu.not_yours else tpu.owner),
        ("connection", state_text(tpu.connection.value)),
        ("version", tpu.version),
        ("made by", "" if tpu.attached else _MADE_BY[tpu.api]),
        ("tier", "" if tpu.attached else tpu.tier),
        ("runs for", run_text(tpu)),
        *_details(tpu),
        ("attached" if tpu.attached else "created", tpu.created),
        ("running", _running(tpu)),
        ("not ready", f"since {tpu.ended} at the latest" if tpu.ended else ""),
        ("price", "" if tpu.attached else hourly(tpu.cost, tpu.tier)),
        ("cost so far", so_far(tpu)),
        ("guard", countdown(tpu.guard) if tpu.guard is not None else ""),
        ("maintenance", _maintenance(tpu)),
        *(("announced", line) for line in _interruption(tpu)),
        ("problem", problem_text(tpu.problem)),
    ]
    return "\n".join(Styled(f"  {name:11} ").append(fact).render() for name, fact in facts if fact)


_MADE_BY = {"tpu": "the Cloud TPU API", "compute": "Compute Engine"}


def _reached_by(tpu: TPU) -> str:
    """Commands that log in to an attached machine, by the numbers of its hosts; else ""."""
    aliases = tpu.details.get("ssh", ()) if tpu.attached else ()
    return ", ".join(f"ssh {alias}" for alias in aliases)


def _details(tpu: TPU) -> Iterator[tuple[str, str]]:
    """What else Google says of it, as far as it fits a line; ``--json`` has all."""
    options = tpu.options
    yield "labels", ", ".join(f"{key}={value}" for key, value in sorted(tpu.labels.items()))
    yield "network", tpu.network.rpartition("/")[2]
    yield "subnetwork", tpu.subnetwork.rpartition("/")[2]
    yield "tags", ", ".join(options.tags)
    yield "account", options.service_account
    yield (
        "disks",
        ", ".join(
            disk.source.rpartition("/")[2] + (" (read-only)" if disk.mode == "read-only" else "")
            for disk in options.data_disks
        ),
    )
    yield "queued as", tpu.queued
    yield "description", options.description


def _state_details(tpu: TPU) -> str:
    word = f" ({tpu.cloud_state})" if tpu.cloud_state else ""
    return word + (f", health {tpu.health}" if tpu.health else "")


def _maintenance(tpu: TPU) -> str:
    coming = tpu.maintenance
    if coming is None:
        return ""
    parts = []
    if coming.ongoing:
        parts.append(phrase("in progress; what ran there may have ended"))
    else:
        parts.append(phrase("announced by Google; everything that runs there will end"))
        if coming.start:
            parts.append(phrase(f"from {coming.start}"))
    if coming.end:
        parts.append(phrase(f"until {coming.end}"))
    return " · ".join(parts)


def _interruption(tpu: TPU) -> Iterator[str]:
    coming = tpu.interruption
    if coming is None:
        return
    yield (
        "Google is about to preempt it. This ends everything that runs there."
        if coming.kind == "preemption"
        else "Google is about to restart it for maintenance. This ends everything that runs there."
    )
    yield phrase(f"announced to {numbered(coming.hosts)} at {coming.noticed}")
    for run in coming.checkpoints:
        where = f"{run.notebook} on host {run.host}" if run.notebook else f"host {run.host}"
        why = f": {run.error}" if run.error else ""
        yield f"{run.what} of {where}: {run.state}{why}"


def _running(tpu: TPU) -> str:
    since = tpu.cost.since
    return f"since {since} ({running_for(tpu.cost)})" if since else ""


def _versions(environment: Environment) -> Iterator[str]:
    """Which hosts had other versions than host 0 in the last check, and what to do."""
    last = environment.versions
    if last is None:
        return
    name, checked = environment.name, last.time
    for difference in last.different:
        host, versions = difference.host, difference.versions
        yield f"{name} differs on host {host} (checked at {checked}): {versions}"
    if last.different and not environment.python_path:
        sync = f"jupyter tpu env sync {environment.tpu} {environment.name}"
        yield f"To give all hosts the same: {sync}"
    if last.unchecked:
        hosts = ", ".join(map(str, last.unchecked))
        yield phrase(f"{name} was not checked on hosts {hosts} (checked at {checked})")
    if not last.different and not last.unchecked:
        yield phrase(f"{name} has the same versions on all hosts (checked at {checked})")


def _warm(kernel: WarmKernel) -> str:
    """The memory that the warm kernel of an environment uses, or why there is none."""
    if kernel.state == "ready":
        return f"{kernel.memory / 1e6:.0f} MB"
    return kernel.problem or ("" if kernel.state == "off" else kernel.state)
