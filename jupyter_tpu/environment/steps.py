"""The steps that give hosts an environment, in their order: a table of what is checked on each
host, and what is done where the check fails.

A new step is an entry here and, if it needs one, a program in ``on_host``. Its check only reads
what the hosts' probes said. It may be cut off anywhere: the next connection checks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, structs

from ..links.host_calls import NoSuchPython
from ..progress import StepPlan
from . import pythons
from .host_answers import Probe
from .host_work import HostWork
from .imports import asked_for
from .locks import made_for
from .models import EnvironmentSpec
from .pod import require_pod
from .requirements import framework_of, index_options, jaxkit_sources, without_libtpu
from .usability import require_usable
from .verification import chips_in_use, single_host_variables

#: Seconds that a step may take which installs what the user wants.
_LONGEST_STEP_SECONDS = 7300


class SetupStep(Struct, frozen=True):
    """What every host should have.

    check: whether a host has it.
    apply: gives it to hosts. It gets the numbers of those whose check failed.
    is_requested: whether it is asked for.
    optional: the environment can be used without it, so its failure is a warning.
    """

    plan: StepPlan
    check: Callable[[HostWork, Probe], bool]
    apply: Callable[[HostWork, Sequence[int]], Awaitable[None]]
    is_requested: Callable[[EnvironmentSpec], bool] = lambda spec: True
    optional: bool = False


async def _get_uv(work: HostWork, missing: Sequence[int]) -> None:
    answers = await work.on_all("uv", "get_uv", timeout=900)
    work.uvs = [answer["uv"] for answer in answers]


async def _create_venv(work: HostWork, missing: Sequence[int]) -> None:
    try:
        await _create_with_python(work)
    except NoSuchPython:
        wanted, otherwise = work.python.version, work.python.otherwise
        if not otherwise:
            installed = [probe.pythons for probe in work.probes]
            raise pythons.missing(wanted, installed, made_for(work.spec.lock)) from None
        work.reporter.log(f"uv could not download Python {wanted}. So Python {otherwise} is used")
        # A host that could download it has an environment now.
        await work.on_all("venv", "remove", timeout=300, name=work.name)
        work.unavailable, work.python = wanted, pythons.PythonChoice(otherwise)
        await _create_venv(work, missing)


async def _create_with_python(work: HostWork) -> None:
    await work.on_all(
        "venv",
        "create_venv",
        timeout=1200,
        per_host=[
            {"uv": uv, "python": work.python.path_in(probe.pythons)}
            for uv, probe in zip(work.uvs, work.probes, strict=True)
        ],
        name=work.name,
    )


async def _resolve(work: HostWork, missing: Sequence[int]) -> None:
    """Host 0 chooses the versions for all hosts."""
    lock = work.asked_lock
    answer = await work.call(
        0, "resolve", timeout=1200, uv=work.uvs[0], name=work.name,
        requirements=work.requirements,
        # TorchTPU can't be imported without libtpu.
        lock=without_libtpu(lock) if work.expected.emulated and work.framework == "jax" else lock,
    )  # fmt: skip
    work.lock = answer["lock"]


async def _install(work: HostWork, missing: Sequence[int]) -> None:
    answers = await work.on_all(
        "packages",
        "install_packages",
        timeout=_LONGEST_STEP_SECONDS,
        per_host=[{"uv": uv} for uv in work.uvs],
        name=work.name,
        requirements="\n".join([*index_options(work.requirements), work.lock]),
        packages=work.spec.packages,
        jaxkit=jaxkit_sources() if work.framework == "jax" else None,
    )
    work.requested = answers[0]


async def _verify(work: HostWork, missing: Sequence[int]) -> None:
    await _check_hosts(work)
    await _align_versions(work)
    require_usable(work.checks, work.expected, work.reporter.log, work.framework)
    if work.framework == "torch":
        return  # what joins its processes is torch.distributed, which their program starts
    if work.expected.emulated or not any(map(chips_in_use, work.checks)):
        python = f"{work.probes[0].path}/bin/python"
        await require_pod(work.hosts, python, work.expected, work.reporter.log)


async def _check_hosts(work: HostWork) -> None:
    variables = single_host_variables(len(work.hosts))
    answers = await work.on_all(
        "verify",
        "verify",
        timeout=400,
        name=work.name,
        variables=variables,
        asked=asked_for(work.spec.packages, work.spec.requirements),
        locked=asked_for([], work.asked_lock),
        start=work.framework,
    )
    work.checks = answers


async def _align_versions(work: HostWork) -> None:
    """Gives all hosts the versions of host 0, should they differ."""
    first = work.checks[0].packages
    others = [index for index, check in enumerate(work.checks) if check.packages != first]
    if not others and work.lock:
        return
    answer = await work.call(0, "lock_packages", timeout=600, uv=work.uvs[0], name=work.name)
    work.lock, work.requested = answer.lock, answer.requested
    if not others:
        return
    work.reporter.log(f"Hosts {', '.join(map(str, others))} get the versions of host 0")
    for index in others:
        await work.call(
            index, "sync_packages", timeout=_LONGEST_STEP_SECONDS, uv=work.uvs[index],
            name=work.name, lock=work.lock, packages=work.requested.packages,
        )  # fmt: skip
    work.reporter.begin("verify")  # again
    await _check_hosts(work)


def _setup(key: str, title: str, weight: float, *, optional: bool = False) -> SetupStep:
    """A step of ``on_host.environments.host_setup``; what fails on one host does not stop the
    others.
    """

    async def apply(work: HostWork, missing: Sequence[int]) -> None:
        value = work.spec.setup.requested[key]
        await work.on_missing(
            key, missing, "apply_setup", timeout=_LONGEST_STEP_SECONDS,
            key=key, value=value, name=work.name,
        )  # fmt: skip
        if key == "script":
            work.lock = ""  # it may have changed the packages

    return SetupStep(
        plan=StepPlan(key, title, weight),
        check=lambda work, probe: probe.setup[key] != "needed",
        apply=apply,
        is_requested=lambda spec: key in spec.setup.requested,
        optional=optional,
    )


#: The setup script comes last, so that it can use the environment; what it did is verified.
STEPS = (
    _setup("apt", "Install packages of apt", 20),
    _setup("timezone", "Set the time zone", 1, optional=True),
    SetupStep(StepPlan("uv", "Get uv", 7), lambda _, probe: bool(probe.uv), _get_uv),
    SetupStep(
        StepPlan("venv", "Create the environment", 4),
        lambda _, probe: bool(probe.environment),
        _create_venv,
    ),
    SetupStep(
        StepPlan("lock", "Choose the versions", 4, all_hosts=False), HostWork.is_verified, _resolve
    ),
    SetupStep(StepPlan("packages", "Install JAX and packages", 70), HostWork.is_verified, _install),
    _setup("oh_my_zsh", "Install oh-my-zsh", 10, optional=True),
    _setup("script", "Run the setup script", 20),
    SetupStep(
        StepPlan("verify", "Check JAX and its devices", 12),
        lambda work, probe: not work.changed and work.is_verified(probe),
        _verify,
    ),
)


def steps_of(spec: EnvironmentSpec) -> list[SetupStep]:
    """Those that *spec* asks for."""
    steps = [step for step in STEPS if step.is_requested(spec)]
    if framework_of(spec) == "jax":
        return steps
    return [_of_torch(step) for step in steps]


def _of_torch(step: SetupStep) -> SetupStep:
    title = step.plan.title.replace("JAX", "PyTorch")
    return structs.replace(step, plan=structs.replace(step.plan, title=title))
