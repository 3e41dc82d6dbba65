"""`create`: an environment on all hosts of a TPU at once, step by step, each with check and apply.

Any step may fail or be cut off; making it again finds what is there and goes on. The marker file
that says "nothing to do" is written last.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from ..errors import Reason, TPUError
from . import pythons
from .models import CreatedEnvironment, EnvironmentSpec, ExpectedHardware, RemoteHost
from .progress import ProgressReporter, StepPlan
from .remote_call import NoSuchPython, call

STEPS = (
    StepPlan("look", "Look at the hosts", 3),
    StepPlan("uv", "Get uv", 7),
    StepPlan("venv", "Make the environment", 4),
    StepPlan("packages", "Install JAX and packages", 70),
    StepPlan("verify", "Check what JAX sees", 12),
)

#: Bytes that must be free before packages are installed. jax[tpu] brings libtpu, 0.6 GB unpacked,
#: and everything is there twice for a moment (cache and environment).
SPACE = 3 * 2**30
SPACE_EMULATED = 500 * 2**20


def single_host_variables(hosts: int) -> dict[str, str]:
    """The variables with which a process on one host of a TPU of *hosts* sees that host's chips.

    Without them, on a pod, JAX waits until it is started on all hosts. The hosts of a pod have
    four chips each. Source: pytorch/xla#7714.
    """
    if hosts < 2:
        return {}
    return {
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1",
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_VISIBLE_CHIPS": "0,1,2,3",
        "TPU_VISIBLE_DEVICES": "0,1,2,3",
    }


_DISK_HINT = "Delete what is not needed there; `du -sh ~/* ~/.cache` shows what is big."


class _Look(Struct, frozen=True, kw_only=True):
    """What one host said of itself; see ``on_host.look``."""

    free: int
    chips: int
    uv: str
    path: str
    environment: str  # the version of its Python; "" if there is none that works
    marker: dict[str, Any]
    pythons: dict[str, str]


async def create(
    hosts: Sequence[RemoteHost],
    spec: EnvironmentSpec,
    expected: ExpectedHardware,
    reporter: ProgressReporter,
) -> CreatedEnvironment:
    """Makes or completes the environment *spec* on all *hosts*, and verifies it.

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
        self._requirements = requirements(spec, emulated=expected.emulated)

    async def run(self) -> CreatedEnvironment:
        looks = await self._look()
        if all(self._is_ready(look) for look in looks):
            return self._as_it_is(looks)
        self._check_space(looks)
        wanted = pythons.choose(
            self._spec.python,
            [look.pythons for look in looks],
            [look.environment for look in looks],
            self._spec.name,
        )
        uvs = await self._get_uv(looks)
        await self._make_venv(looks, uvs, wanted)
        await self._install(uvs, self._requirements)
        told = await self._verify()
        told = await self._make_equal(uvs, told)
        made = self._judge(looks, told)
        if not any("backend_error" in one for one in told):
            await self._mark(told, made)
        self._reporter.done("verify")
        return made

    # ---- steps ----

    async def _look(self) -> list[_Look]:
        import msgspec

        answers = await self._on_all("look", "probe", timeout=120, name=self._spec.name)
        looks = [msgspec.convert(answer, _Look) for answer in answers]
        for index, look in enumerate(looks):
            have = ", ".join(pythons.ordered(look.pythons)) or "none that will do"
            self._reporter.log(
                f"host {index}: {look.free / 2**30:.1f} GiB free, {look.chips} TPU chips, "
                f"Python {have}"
            )
        self._reporter.done("look")
        return looks

    def _is_ready(self, look: _Look) -> bool:
        return bool(look.environment) and look.marker.get("made of") == self._fingerprint()

    def _as_it_is(self, looks: Sequence[_Look]) -> CreatedEnvironment:
        for key in ("uv", "venv", "packages", "verify"):
            self._reporter.done(key, "skipped")
        marker = looks[0].marker
        self._reporter.log("The environment is complete; it was verified when it was made")
        return CreatedEnvironment(
            path=looks[0].path,
            python=looks[0].environment,
            jax=marker["jax"],
            platform=marker["platform"],
            devices=marker["devices"],
        )

    def _check_space(self, looks: Sequence[_Look]) -> None:
        need = SPACE_EMULATED if self._expected.emulated else SPACE
        for index, look in enumerate(looks):
            if look.marker:
                continue  # complete but for some packages
            if look.free < need:
                raise TPUError(
                    f"On host {index} only {look.free / 2**20:.0f} MiB of disk are free; an "
                    f"environment with JAX needs {need / 2**20:.0f}.",
                    Reason.DISK_FULL,
                    _DISK_HINT,
                )

    async def _get_uv(self, looks: Sequence[_Look]) -> list[str]:
        answers = await self._on_all("uv", "get_uv", timeout=900)
        self._reporter.done("uv", "skipped" if all(look.uv for look in looks) else "done")
        return [answer["uv"] for answer in answers]

    async def _make_venv(
        self, looks: Sequence[_Look], uvs: Sequence[str], wanted: pythons.Choice
    ) -> None:
        try:
            await self._on_all(
                "venv",
                "create_venv",
                timeout=1200,
                each=[
                    {"uv": uv, "python": wanted.path_in(look.pythons)}
                    for uv, look in zip(uvs, looks, strict=True)
                ],
                name=self._spec.name,
            )
        except NoSuchPython:
            raise pythons.missing(wanted.said, [look.pythons for look in looks]) from None
        self._reporter.done("venv")

    async def _install(self, uvs: Sequence[str], text: str) -> None:
        await self._on_all(
            "packages",
            "install_packages",
            timeout=7300,
            each=[{"uv": uv} for uv in uvs],
            name=self._spec.name,
            requirements=text,
        )
        self._reporter.done("packages")

    async def _verify(self) -> list[dict[str, Any]]:
        variables = single_host_variables(len(self._hosts))
        return await self._on_all(
            "verify", "verify", timeout=400, name=self._spec.name, variables=variables
        )

    async def _make_equal(
        self, uvs: Sequence[str], told: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Gives all hosts the versions of host 0, should they have resolved differently."""
        first = told[0].get("packages", {})
        others = [i for i, one in enumerate(told) if one.get("packages", {}) != first]
        if not others:
            return told
        self._reporter.log(f"Hosts {', '.join(map(str, others))} get the versions of host 0")
        pins = "".join(f"{name}=={version}\n" for name, version in sorted(first.items()))
        for index in others:
            await self._call(
                index, "install_packages", timeout=7300, uv=uvs[index], name=self._spec.name,
                requirements=pins,
            )  # fmt: skip
        return await self._verify()

    async def _mark(self, told: Sequence[dict[str, Any]], made: CreatedEnvironment) -> None:
        content = {
            "made of": self._fingerprint(),
            "jax": made.jax,
            "platform": made.platform,
            "devices": made.devices,
        }
        await asyncio.gather(
            *(
                self._call(i, "write_marker", timeout=60, name=self._spec.name, content=content)
                for i in range(len(told))
            )
        )

    # ---- judging ----

    def _judge(self, looks: Sequence[_Look], told: Sequence[dict[str, Any]]) -> CreatedEnvironment:
        for index, one in enumerate(told):
            self._judge_host(index, one)
        first = told[0]
        for index, one in enumerate(told):
            differ = _differences(first, one)
            if differ:
                raise TPUError(
                    f"Host {index} has other versions than host 0: {differ}.",
                    Reason.ENVIRONMENT,
                    "Use another environment name, so that it is made anew on all hosts.",
                )
        devices = self._expected.devices_per_host or 0
        return CreatedEnvironment(
            path=looks[0].path,
            python=first["python"],
            jax=first["jax"],
            platform=first.get("platform", "tpu"),
            devices=first.get("devices", devices),
        )

    def _judge_host(self, index: int, one: dict[str, Any]) -> None:
        if "error" in one:
            raise TPUError(
                f"The environment does not work on host {index}: {one['error']}",
                Reason.ENVIRONMENT,
                "If a package of yours replaced another's version, leave it out or pin it.",
            )
        expected, chips = self._expected, one.get("chips", 0)
        trouble = one.get("backend_error", "")
        if trouble and ("in use" in trouble or "busy" in trouble.lower()):
            # Somebody's program has the chips: no reason to refuse, and nothing to verify now.
            self._reporter.log(f"host {index}: the chips are in use, so they were not checked")
            return
        if trouble or (not expected.emulated and one.get("platform") != "tpu"):
            raise _fallback(index, chips, one, trouble)
        want, have = expected.devices_per_host, one["devices"]
        if want is not None and want != have:
            raise TPUError(
                f"JAX sees {have} devices on host {index}; this type has {want} there.",
                Reason.ENVIRONMENT,
                "Restart the TPU; if it stays so, it is damaged or has another image.",
            )
        versions = f"Python {one['python']}, JAX {one['jax']}"
        self._reporter.log(f"host {index}: {versions}, {have} {one['platform']} devices")

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

        async def one(index: int) -> Any:
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

        return await gather_or_cancel([one(index) for index in range(len(self._hosts))])

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
        what = [self._requirements, self._spec.python or "", self._expected.devices_per_host]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()


def requirements(spec: EnvironmentSpec, *, emulated: bool) -> str:
    """A requirements file: what every environment has, and what the user wants.

    libtpu comes from the package index with ``jax[tpu]`` since JAX 0.5; no page of links is
    needed any more.
    """
    lines = ["jax" if emulated else "jax[tpu]", "ipykernel", "pyzmq", "ipywidgets"]
    return "\n".join([*lines, *spec.packages, spec.requirements.strip(), ""])


def _differences(first: dict[str, Any], other: dict[str, Any]) -> str:
    ours, theirs = first.get("packages", {}), other.get("packages", {})
    names = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    said = [f"{n} {theirs.get(n, 'missing')} instead of {ours.get(n, 'none')}" for n in names[:5]]
    if first["python"].rpartition(".")[0] != other["python"].rpartition(".")[0]:
        said.insert(0, f"Python {other['python']} instead of {first['python']}")
    return ", ".join(sorted(said))


def _fallback(index: int, chips: int, one: dict[str, Any], trouble: str) -> TPUError:
    if not chips:
        return TPUError(
            f"No TPU chip is plugged in on host {index}, so JAX falls back to the CPU.",
            Reason.CPU_FALLBACK,
            "The runtime version may not fit the type: create the TPU with the type's usual one.",
        )
    why = f" ({trouble.splitlines()[0]})" if trouble else ""
    return TPUError(
        f"JAX does not use the {chips} TPU chips of host {index} but the "
        f"{one.get('platform', 'CPU')}{why}.",
        Reason.CPU_FALLBACK,
        "Look at the packages: one may have replaced jax[tpu] or libtpu. The log says more.",
    )


async def gather_or_cancel(calls: Sequence[Awaitable[Any]]) -> list[Any]:
    """All answers in order; the first failure cancels the other calls and is raised."""
    tasks = [asyncio.ensure_future(one) for one in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
