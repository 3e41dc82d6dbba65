"""`create`: an environment on all hosts of a TPU at once, step by step, each with check and apply.

Any step may fail or be cut off; the next call finds what is there and continues. The marker file
that says "nothing to do" is written last.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, Struct, convert, structs

from ..errors import Reason, TPUError
from . import pythons
from .concurrency import gather_or_cancel
from .jaxkit_sources import REQUIREMENTS, jaxkit_sources
from .models import CreatedEnvironment, EnvironmentSpec, ExpectedHardware, RemoteHost, Requested
from .pod import require_pod
from .progress import ProgressReporter, StepPlan
from .remote_call import NoSuchPython, call
from .verification import HostCheck, chips_in_use, require_usable, single_host_variables

STEPS = (
    StepPlan("look", "Check the hosts", 3),
    StepPlan("uv", "Get uv", 7),
    StepPlan("venv", "Create the environment", 4),
    StepPlan("lock", "Choose the versions", 4, all_hosts=False),
    StepPlan("packages", "Install JAX and packages", 70),
    StepPlan("verify", "Check JAX and its devices", 12),
)

#: Bytes that must be free before packages are installed. jax[tpu] brings libtpu, 0.6 GB unpacked,
#: and everything is there twice for a moment (cache and environment).
SPACE = 3 * 2**30
SPACE_EMULATED = 500 * 2**20

DISK_HINT = "Delete what is not needed there. `du -sh ~/* ~/.cache` shows what is big."


class _Probe(Struct, frozen=True, kw_only=True):
    """What one host is and has; see ``on_host.probe``."""

    free: int
    chips: int
    uv: str
    path: str
    environment: str  # the version of its Python; "" if there is none that works
    marker: dict[str, Any]
    requested: dict[str, Any]  # see ``on_host.packages``
    pythons: dict[str, str]
    folders: list[str]  # of environments that are not ours


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
    return await _Creation(hosts, spec, expected, reporter).run()


class _Creation:
    def __init__(
        self,
        hosts: Sequence[RemoteHost],
        spec: EnvironmentSpec,
        expected: ExpectedHardware,
        reporter: ProgressReporter,
    ) -> None:
        self._hosts = hosts
        self._spec = spec
        self._expected = expected
        self._reporter = reporter
        self._requested = Requested()
        self._lock = ""
        self._requirements = requirements(spec, emulated=expected.emulated)

    async def run(self) -> CreatedEnvironment:
        probes = await self._probe()
        if all(self._is_complete(probe) for probe in probes):
            return self._reuse(probes[0])
        self._check_space(probes)
        python = pythons.choose(
            self._spec.python,
            [probe.pythons for probe in probes],
            [probe.environment for probe in probes],
            self._spec.name,
        )
        uvs = await self._get_uv(probes)
        await self._create_venv(probes, uvs, python)
        await self._resolve(uvs[0])
        await self._install(uvs)
        checks = await self._verify()
        checks = await self._align_versions(uvs, checks)
        require_usable(checks, self._expected, self._reporter.log)
        unknown = not self._expected.emulated and any(map(chips_in_use, checks))
        created = self._result(probes[0], checks[0], unknown)
        if not unknown:
            interpreter = f"{created.path}/bin/python"
            await require_pod(self._hosts, interpreter, self._expected, self._reporter.log)
            await self._write_markers(created)
        self._reporter.done("verify")
        return created

    # ---- steps ----

    async def _probe(self) -> list[_Probe]:
        answers = await self._on_all("look", "probe", timeout=120, name=self._spec.name)
        probes = [convert(answer, _Probe) for answer in answers]
        for index, probe in enumerate(probes):
            have = ", ".join(pythons.ordered(probe.pythons)) or "no Python 3.8 or newer"
            self._reporter.log(
                f"host {index}: {probe.free / 2**30:.1f} GiB free, {probe.chips} TPU chips, "
                f"Python {have}"
            )
            if probe.folders:
                self._reporter.log(
                    f"host {index}: other environments: {', '.join(probe.folders)}. Their kernels: "
                    f"jupyter tpu env list {self._hosts[index].host.node.node} --found"
                )
        self._reporter.done("look")
        return probes

    def _is_complete(self, probe: _Probe) -> bool:
        return (
            bool(probe.environment)
            and probe.marker.get("made of") == self._fingerprint()
            and set(self._spec.packages) <= set(probe.requested["packages"])
        )

    def _reuse(self, probe: _Probe) -> CreatedEnvironment:
        for key in ("uv", "venv", "lock", "packages", "verify"):
            self._reporter.done(key, "skipped")
        self._reporter.log("The environment is complete; it was verified when it was created")
        return CreatedEnvironment(
            path=probe.path,
            python=probe.environment,
            requested=convert(probe.requested, Requested),
            jax=probe.marker["jax"],
            platform=probe.marker["platform"],
            devices=probe.marker["devices"],
        )

    def _check_space(self, probes: Sequence[_Probe]) -> None:
        need = SPACE_EMULATED if self._expected.emulated else SPACE
        for index, probe in enumerate(probes):
            if probe.marker:
                continue  # complete but for some packages
            if probe.free < need:
                raise TPUError(
                    f"On host {index} only {probe.free / 2**20:.0f} MiB of disk are free; an "
                    f"environment with JAX needs {need / 2**20:.0f}.",
                    Reason.DISK_FULL,
                    DISK_HINT,
                )

    async def _get_uv(self, probes: Sequence[_Probe]) -> list[str]:
        answers = await self._on_all("uv", "get_uv", timeout=900)
        self._reporter.done("uv", "skipped" if all(probe.uv for probe in probes) else "done")
        return [answer["uv"] for answer in answers]

    async def _create_venv(
        self, probes: Sequence[_Probe], uvs: Sequence[str], python: pythons.Choice
    ) -> None:
        try:
            await self._on_all(
                "venv",
                "create_venv",
                timeout=1200,
                each=[
                    {"uv": uv, "python": python.path_in(probe.pythons)}
                    for uv, probe in zip(uvs, probes, strict=True)
                ],
                name=self._spec.name,
            )
        except NoSuchPython:
            found = [probe.pythons for probe in probes]
            raise pythons.missing(python.version, found) from None
        self._reporter.done("venv")

    async def _resolve(self, uv: str) -> None:
        """Host 0 chooses the versions for all hosts."""
        self._reporter.begin("lock")
        answer = await self._call(
            0, "resolve", timeout=1200, uv=uv, name=self._spec.name,
            requirements=self._requirements,
            lock=without_libtpu(self._spec.lock) if self._expected.emulated else self._spec.lock,
        )  # fmt: skip
        self._lock = answer["lock"]
        self._reporter.done("lock")

    async def _install(self, uvs: Sequence[str]) -> None:
        answers = await self._on_all(
            "packages",
            "install_packages",
            timeout=7300,
            each=[{"uv": uv} for uv in uvs],
            name=self._spec.name,
            requirements="\n".join([*index_options(self._requirements), self._lock]),
            packages=self._spec.packages,
            jaxkit=jaxkit_sources(),
        )
        self._reporter.done("packages")
        self._requested = convert(answers[0], Requested)

    async def _verify(self) -> list[HostCheck]:
        variables = single_host_variables(len(self._hosts))
        answers = await self._on_all(
            "verify", "verify", timeout=400, name=self._spec.name, variables=variables
        )
        return list(map(HostCheck.parse, answers))

    async def _align_versions(self, uvs: Sequence[str], checks: list[HostCheck]) -> list[HostCheck]:
        """Gives all hosts the versions of host 0, should they have resolved differently."""
        first = checks[0].packages
        others = [index for index, check in enumerate(checks) if check.packages != first]
        if not others:
            return checks
        self._reporter.log(f"Hosts {', '.join(map(str, others))} get the versions of host 0")
        answer = await self._call(0, "lock_packages", timeout=600, uv=uvs[0], name=self._spec.name)
        for index in others:
            await self._call(
                index, "sync_packages", timeout=7300, uv=uvs[index], name=self._spec.name,
                lock=answer["lock"], packages=answer["packages"],
            )  # fmt: skip
        return await self._verify()

    def _result(self, probe: _Probe, check: HostCheck, unknown: bool) -> CreatedEnvironment:
        """unknown: the chips were in use, so that JAX was not checked."""
        expected = self._expected.devices_per_host or 0
        return CreatedEnvironment(
            path=probe.path,
            requested=self._requested,
            lock=self._lock,
            python=check.python,
            jax=check.jax,
            platform="tpu" if unknown or check.platform is UNSET else check.platform,
            devices=expected if unknown or check.devices is UNSET else check.devices,
        )

    async def _write_markers(self, created: CreatedEnvironment) -> None:
        content = {
            "made of": self._fingerprint(),
            "jax": created.jax,
            "platform": created.platform,
            "devices": created.devices,
        }
        await asyncio.gather(
            *(
                self._call(i, "write_marker", timeout=60, name=self._spec.name, content=content)
                for i in range(len(self._hosts))
            )
        )

    # ---- calling ----

    async def _on_all(
        self,
        step: str,
        function: str,
        *,
        timeout: float,
        each: Sequence[dict[str, Any]] | None = None,
        **arguments: Any,
    ) -> list[Any]:
        """Calls *function* on all hosts at once; the first failure ends the others."""
        self._reporter.begin(step)
        parts = [0.0] * len(self._hosts)

        async def on_host(index: int) -> Any:
            def part(value: float) -> None:
                parts[index] = value
                self._reporter.part(step, sum(parts) / len(parts))

            own = each[index] if each else {}
            answer = await self._call(
                index, function, timeout=timeout, part=part, **arguments, **own
            )
            part(1.0)
            self._reporter.host_done(step)
            return answer

        return await gather_or_cancel([on_host(index) for index in range(len(self._hosts))])

    async def _call(
        self,
        index: int,
        function: str,
        *,
        timeout: float,
        part: Callable[[float], None] = lambda part: None,
        **arguments: Any,
    ) -> Any:
        return await call(
            self._hosts[index],
            function,
            log=self._reporter.log,
            part=part,
            timeout=timeout,
            **arguments,
        )

    def _fingerprint(self) -> str:
        """Of all but the packages, which are recorded on the hosts one by one.

        It changes with the version of jupyter-tpu, whose parts on the hosts are then renewed.
        """
        plain = structs.replace(self._spec, packages=())
        text = requirements(plain, emulated=self._expected.emulated)
        digest, _ = jaxkit_sources()
        what = [text, self._spec.python or "", self._expected.devices_per_host, digest]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def requirements(spec: EnvironmentSpec, *, emulated: bool) -> str:
    """A requirements file: what every environment has, and what the user wants.

    libtpu comes from the package index with ``jax[tpu]`` since JAX 0.5; no page of links is
    needed any more.
    """
    kernel = ["jax" if emulated else "jax[tpu]", "ipykernel", "pyzmq", "ipywidgets"]
    notebook = ["cloudpickle", "matplotlib", "tqdm", *REQUIREMENTS]
    return "\n".join([*kernel, *notebook, *spec.packages, spec.requirements.strip(), ""])


def index_options(requirements: str) -> list[str]:
    """The lines of a requirements file that say where packages come from."""
    wanted = r"\s*(-i|-f|--(extra-|default-)?index(-url)?|--find-links|--no-index|--trusted-host)\b"
    return [line for line in requirements.splitlines() if re.match(wanted, line)]


def without_libtpu(lock: str) -> str:
    """A lock for a host without chips."""
    lines = (line for line in lock.splitlines() if not re.match(r"libtpu\b", line))
    return "\n".join(re.sub(r"^jax\[tpu\]", "jax", line) for line in lines)
