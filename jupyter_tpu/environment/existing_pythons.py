"""Pythons that were on the hosts before us: listed, and used for kernels as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, structs

from ..concurrency import gather_or_cancel
from ..errors import Reason, TPUError
from ..links.remote_host import RemoteHost
from ..progress import ProgressReporter, StepPlan
from ..wording import hosts_text
from .host_answers import ENVIRONMENTS, OnHost
from .models import CreatedEnvironment, ExpectedHardware, FoundPython, FoundPythons, Requested
from .packages import uv_path
from .pod import require_pod
from .pythons import is_older
from .usability import require_usable_found
from .verification import HostCheck, single_host_variables

STEPS = (
    StepPlan("look", "Check the Python", 2),
    StepPlan("ipykernel", "Install ipykernel", 4),
    StepPlan("verify", "Check JAX and its devices", 12),
)
#: What the kernel's keeper needs.
OLDEST = (3, 8)


async def on_host(host: RemoteHost, path: str = "") -> OnHost:
    """The Pythons on a host, and the one at *path* if it is not ""; without those we created."""
    answer: OnHost = await ENVIRONMENTS.call(host, "found_pythons", timeout=60, path=path)
    return answer


def merge(hosts: Sequence[OnHost | TPUError]) -> FoundPythons:
    """What the hosts answered, as one list. Raises the error of host 0 if none answered."""
    known = {
        index: host_answer
        for index, host_answer in enumerate(hosts)
        if isinstance(host_answer, OnHost)
    }
    problems = {
        index: host_answer
        for index, host_answer in enumerate(hosts)
        if isinstance(host_answer, TPUError)
    }
    if not known:
        raise problems[0]
    by_path: dict[str, dict[int, FoundPython]] = {}
    for index, answer in known.items():
        for python in answer.pythons:
            by_path.setdefault(python.path, {})[index] = python
    return FoundPythons(
        pythons=[_merged(found_pythons, list(known)) for found_pythons in by_path.values()],
        asked=next((response.asked for response in known.values() if response.asked), ""),
        problems=[f"Host {index} did not answer: {error}" for index, error in problems.items()],
    )


def _merged(on_hosts: dict[int, FoundPython], known: Sequence[int]) -> FoundPython:
    """What all hosts say of one Python."""
    first = next(iter(on_hosts.values()))
    merged = structs.replace(
        first,
        missing=[index for index in known if index not in on_hosts],
        different=[
            index
            for index, found_python in on_hosts.items()
            if _versions(found_python) != _versions(first)
        ],
        ipykernel="" if any(not host.ipykernel for host in on_hosts.values()) else first.ipykernel,
        installable=all(host.ipykernel or host.installable for host in on_hosts.values()),
    )
    problem = _problem(merged, on_hosts)
    base = bool(problem) and merged.kind in ("system", "uv")
    return structs.replace(merged, problem=problem, base=base)


def _versions(python: FoundPython) -> tuple[str, ...]:
    return python.version, python.ipykernel, python.jax


def _problem(python: FoundPython, on_hosts: dict[int, FoundPython]) -> str:
    for index, found_python in on_hosts.items():
        if found_python.problem:
            return f"It does not start on host {index}: {found_python.problem.rstrip('.')}."
    if python.missing:
        return f"It is missing on {hosts_text(python.missing)}."
    if is_older(python.version, OLDEST):
        return "Kernels need Python 3.8 or newer."
    if not python.ipykernel and not python.installable:
        return "It has no ipykernel, and belongs to the system."
    return ""


async def use(
    hosts: Sequence[RemoteHost],
    path: str,
    expected: ExpectedHardware,
    reporter: ProgressReporter,
    *,
    install_ipykernel: bool,
) -> CreatedEnvironment:
    """Checks the Python at *path* on all *hosts*; nothing in it is changed.

    install_ipykernel: whether ipykernel may be installed there, with what it needs, if it is
    missing. Packages that are there stay as they are all the same.

    Raises TPUError: NOT_FOUND, INVALID, NO_IPYKERNEL, ENVIRONMENT, CPU_FALLBACK, DISK_FULL,
    UNREACHABLE, TIMEOUT.
    """

    async def on_all(step: str, function: str, timeout: float, **arguments: Any) -> list[Any]:
        async def on_host(host: RemoteHost) -> Any:
            answer = await ENVIRONMENTS.call(
                host, function, log=reporter.log, timeout=timeout, **arguments
            )
            reporter.host_done(step)
            return answer

        reporter.begin(step)
        return await gather_or_cancel([on_host(host) for host in hosts])

    answers = await on_all("look", "describe_python", 60, path=path)
    described: dict[int, FoundPython] = dict(enumerate(answers))
    python = _merged(described, list(described))
    if python.problem:
        raise TPUError(f"{path} can't be used. {python.problem}", Reason.ENVIRONMENT)
    reporter.log(f"{python.path}: Python {python.version}, {python.kind}")
    reporter.done("look")

    lacking = [index for index, found_python in described.items() if not found_python.ipykernel]
    if lacking and not install_ipykernel:
        raise TPUError(
            f"{path} has no ipykernel, which kernels need, on {hosts_text(lacking)}.",
            Reason.NO_IPYKERNEL,
            "Allow it to be installed there, or install it yourself.",
        )
    reporter.begin("ipykernel")

    async def install(index: int) -> None:
        if index in lacking:
            uv = await uv_path(hosts[index], reporter.log)
            await ENVIRONMENTS.call(
                hosts[index], "install_ipykernel", log=reporter.log, timeout=1200,
                uv=uv, python=described[index].path,
            )  # fmt: skip
        reporter.host_done("ipykernel")

    await gather_or_cancel([install(index) for index in described])
    reporter.done("ipykernel", "done" if lacking else "skipped")

    variables = single_host_variables(len(hosts))
    checks: list[HostCheck] = await on_all(
        "verify", "verify", 400, name="", python=python.path, variables=variables
    )
    require_usable_found(checks, expected, reporter.log)
    first = checks[0]
    if first.jax and first.platform is not UNSET:
        await require_pod(hosts, python.path, expected, reporter.log)
    reporter.done("verify")
    return CreatedEnvironment(
        path=python.prefix,
        python_path=python.path,
        requested=Requested(),
        python=first.python,
        jax=first.jax,
        torch=first.torch,
        platform="" if first.platform is UNSET else first.platform,
        devices=0 if first.devices is UNSET else first.devices,
    )
