"""`create`: an environment on all hosts of a TPU at once, by the table of steps.

Any step may fail or be cut off; the next call finds what is there and continues. The marker file
that says "verified" is written last.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from msgspec import UNSET

from ..errors import Reason, TPUError
from ..links.remote_host import RemoteHost
from ..progress import ProgressReporter, StepPlan
from ..wording import hosts_text
from . import pythons
from .host_answers import Probe
from .host_work import HostWork
from .imports import asked_for, failure
from .locks import made_for
from .models import CreatedEnvironment, EnvironmentSpec, ExpectedHardware, Framework
from .requirements import OLDEST_JAX
from .steps import SetupStep, steps_of
from .torch_verification import require_generation
from .verification import chips_in_use

_LOOK = StepPlan("look", "Check the hosts", 3)

#: Bytes that must be free before packages are installed, on a host and on an emulated one. jax[tpu]
#: brings libtpu, 0.6 GB unpacked; PyTorch, TorchTPU and libtpu have 1.9 GB, on emulated hosts too.
#: Everything is there twice for a moment (cache and environment).
FREE_BYTES: dict[Framework, tuple[int, int]] = {
    "jax": (3 * 2**30, 500 * 2**20),
    "torch": (5 * 2**30, 4 * 2**30),
}
NAMES: dict[Framework, str] = {"jax": "JAX", "torch": "PyTorch"}

DISK_HINT = "Delete what is not needed there. `du -sh ~/* ~/.cache` shows what is big."
_NO_ROOT = "This emulated host has no root of its own, and this machine's is not used"


def plan(spec: EnvironmentSpec) -> list[StepPlan]:
    """The steps of `create`."""
    return [_LOOK, *(step.plan for step in steps_of(spec))]


async def create(
    hosts: Sequence[RemoteHost],
    spec: EnvironmentSpec,
    expected: ExpectedHardware,
    reporter: ProgressReporter,
) -> CreatedEnvironment:
    """Creates or completes the environment *spec* on all *hosts*, and verifies it.

    Raises TPUError: NO_PYTHON, DISK_FULL, CONFLICT (the environment is there with another
    Python), ENVIRONMENT, CPU_FALLBACK, UNREACHABLE, TIMEOUT. Cancelling ends what runs on the
    hosts.
    """
    work = HostWork(hosts, spec, expected, reporter)
    if work.framework == "torch":
        require_generation(expected.generation)
    await _probe(work)
    _require_framework(work)
    _check_space(work)
    work.python = pythons.choose(
        spec.python,
        [probe.pythons for probe in work.probes],
        [probe.environment for probe in work.probes],
        spec.environment,
        made_for(spec.lock),
        resolve_again=spec.resolve_again,
    )
    for step in steps_of(spec):
        await take(work, step)
    if not work.changed:
        return _unchanged(work.probes[0], reporter)
    # Where the chips were in use, JAX was not checked.
    unknown = not expected.emulated and any(map(chips_in_use, work.checks))
    created = _created(work, unknown)
    if not unknown and not any(check.failed_imports for check in work.checks):
        await _write_markers(work, created)
    return created


async def take(work: HostWork, step: SetupStep) -> None:
    """Applies *step* where it is missing. The failure of an optional one becomes a warning."""
    key, reporter = step.plan.key, work.reporter
    _log_skipped(work, step.plan)
    missing = [i for i, probe in enumerate(work.probes) if not step.check(work, probe)]
    if not missing:
        reporter.done(key, "skipped")
        return
    reporter.begin(key)
    work.changed = True
    try:
        await step.apply(work, missing)
    except TPUError as error:
        if not step.optional:
            raise
        work.warning = TPUError(f"{step.plan.title}: {error.message}", error.reason, error.hint)
        reporter.log(f"Warning: {work.warning}")
        reporter.done(key, "failed")
    else:
        reporter.done(key)


async def _probe(work: HostWork) -> None:
    spec, reporter = work.spec, work.reporter
    reporter.begin("look")
    answers = await work.on_all(
        "look", "probe", timeout=120, name=spec.environment, setup=spec.setup.requested
    )
    work.probes = answers
    work.uvs = [probe.uv for probe in work.probes]
    work.requested = work.probes[0].requested
    for index, probe in enumerate(work.probes):
        have = ", ".join(pythons.ordered(probe.pythons)) or "no Python 3.8 or newer"
        reporter.log(
            f"host {index}: {probe.free / 2**30:.1f} GiB free, {probe.chips} TPU chips, "
            f"Python {have}"
        )
        if probe.folders:
            reporter.log(
                f"host {index}: other environments: {', '.join(probe.folders)}. Their kernels: "
                f"jupyter tpu env list {work.hosts[index].host.node.node} --found"
            )
    reporter.done("look")


def _require_framework(work: HostWork) -> None:
    """Raises CONFLICT for an environment that is there with another framework."""
    for probe in work.probes:
        has: Framework = "torch" if probe.marker.get("torch") else "jax"
        if probe.environment and probe.marker and has != work.framework:
            raise framework_conflict(work.name, has)


def framework_conflict(environment: str, has: Framework) -> TPUError:
    """The error for an environment that is asked for with another framework than it *has*."""
    return TPUError(
        f"The environment {environment} has {NAMES[has]}.",
        Reason.CONFLICT,
        "Use another environment name (--env) for another framework: both can be on one TPU.",
    )


def _check_space(work: HostWork) -> None:
    need = FREE_BYTES[work.framework][work.expected.emulated]
    for index, probe in enumerate(work.probes):
        if probe.marker:
            continue  # complete but for some packages
        if probe.free < need:
            raise TPUError(
                f"On host {index} only {probe.free / 2**20:.0f} MiB of disk are free; an "
                f"environment with {NAMES[work.framework]} needs {need / 2**20:.0f}.",
                Reason.DISK_FULL,
                DISK_HINT,
            )


def _log_skipped(work: HostWork, step: StepPlan) -> None:
    hosts = [i for i, probe in enumerate(work.probes) if probe.setup.get(step.key) == "skipped"]
    if hosts:
        work.reporter.log(f"{step.title}: skipped on {hosts_text(hosts)}. {_NO_ROOT}")


def _unchanged(probe: Probe, reporter: ProgressReporter) -> CreatedEnvironment:
    reporter.log("The environment is complete; it was verified when it was created")
    return CreatedEnvironment(
        path=probe.path,
        python=probe.environment,
        requested=probe.requested,
        jax=probe.marker.get("jax", ""),
        torch=probe.marker.get("torch", ""),
        platform=probe.marker.get("platform", ""),
        devices=probe.marker.get("devices", 0),
    )


def _created(work: HostWork, unknown: bool) -> CreatedEnvironment:
    """unknown: whether JAX was not checked."""
    check = work.checks[0]
    expected = work.expected.devices_per_host or 0
    return CreatedEnvironment(
        path=work.probes[0].path,
        requested=work.requested,
        lock=work.lock,
        python=check.python,
        jax=check.jax,
        torch=check.torch,
        platform="tpu" if unknown or check.platform is UNSET else check.platform,
        devices=expected if unknown or check.devices is UNSET else check.devices,
        warning=_warning(work),
    )


def _warning(work: HostWork) -> TPUError | None:
    """What is to be said of an environment that can be used; the most important of it."""
    check, spec = work.checks[0], work.spec
    for host, its_check in enumerate(work.checks):
        asked = asked_for(spec.packages, f"{spec.requirements or ''}\n{work.asked_lock}")
        if error := failure(its_check.failed_imports, host, asked):
            return error
    if work.warning is not None:
        return work.warning
    if spec.lock and not work.asked_lock:
        return TPUError(
            f"The hosts don't have Python {made_for(spec.lock)}, for which the earlier versions of "
            f"{work.name} were, so its packages got new versions, for Python {check.python}.",
            Reason.ENVIRONMENT,
            f"Run your notebooks again. To keep these: jupyter tpu env lock TPU {work.name}",
        )
    if check.jax and tuple(map(int, re.findall(r"\d+", check.jax)[:2])) < OLDEST_JAX:
        return TPUError(
            f"JAX {check.jax} is older than {'.'.join(map(str, OLDEST_JAX))}, the oldest that "
            "jupyter-tpu is tested with.",
            Reason.ENVIRONMENT,
            "One of your packages, the package index or the age of the host's system allows no "
            "newer one.",
        )
    if work.unavailable and check.jax:
        return TPUError(
            f"JAX {check.jax} is old: it is the newest for Python {check.python}. Python "
            f"{work.unavailable} is not on the hosts, and uv could not download it.",
            Reason.ENVIRONMENT,
            f"Install Python {work.unavailable} or newer on the hosts, and create an environment "
            "with another name.",
        )
    return None


async def _write_markers(work: HostWork, created: CreatedEnvironment) -> None:
    content = {
        "made of": work.fingerprint(),
        "jax": created.jax,
        "torch": created.torch if work.framework == "torch" else "",
        "platform": created.platform,
        "devices": created.devices,
    }
    await asyncio.gather(
        *(
            work.call(i, "write_marker", timeout=60, name=work.name, content=content)
            for i in range(len(work.hosts))
        )
    )
