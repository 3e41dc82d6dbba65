"""What is known of the hosts while an environment is created, and calls to all of them at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from ..concurrency import finish_on_hosts, gather_or_cancel
from ..errors import TPUError
from ..links.host_calls import MOST_ATTEMPTS
from ..links.remote_host import RemoteHost
from ..progress import ProgressReporter
from .host_answers import ENVIRONMENTS, Probe
from .locks import made_for
from .models import EnvironmentSpec, ExpectedHardware, Requested
from .pythons import PythonChoice, fits
from .requirements import framework_of, jaxkit_sources, requirements
from .verification import HostCheck


class HostWork:
    """The hosts, what they should have, and what the steps have found and done so far.

    framework: what uses the chips.
    probes: of each host, before anything was done.
    python: for new environments.
    unavailable: a Python that would have been chosen, but could not be downloaded; "" if none.
    uvs: the path of uv on each host.
    lock: the exact versions on host 0; "" while they are not known.
    requested: the packages that host 0 has recorded.
    checks: what the last verification found.
    changed: whether any step was applied.
    """

    def __init__(
        self,
        hosts: Sequence[RemoteHost],
        spec: EnvironmentSpec,
        expected: ExpectedHardware,
        reporter: ProgressReporter,
    ) -> None:
        self.hosts = hosts
        self.spec, self.name = spec, spec.environment
        self.expected = expected
        self.reporter = reporter
        self.framework = framework_of(spec)
        self.requirements = requirements(spec, emulated=expected.emulated)
        self.probes: list[Probe] = []
        self.python = PythonChoice("")
        self.unavailable = ""
        self.uvs: list[str] = []
        self.lock = ""
        self.requested = Requested()
        self.checks: list[HostCheck] = []
        self.changed = False
        self.warning: TPUError | None = None  # of an optional step that failed

    @property
    def asked_lock(self) -> str:
        """The lock that was asked for; "" if there is none, or none for this Python."""
        version = made_for(self.spec.lock)
        return "" if version and not fits(self.python.version, version) else self.spec.lock or ""

    def is_verified(self, probe: Probe) -> bool:
        """Whether a host has the environment, complete and verified."""
        return (
            bool(probe.environment)
            and probe.marker.get("made of") == self.fingerprint()
            and set(self.spec.packages) <= set(probe.requested.packages)
        )

    def fingerprint(self) -> str:
        """A digest of the environment but for its packages, which are recorded on the hosts, and
        the hosts' setup, which is checked there.

        It changes with the version of jupyter-tpu, whose parts on the hosts are then renewed.
        """
        plain = structs.replace(self.spec, packages=[], framework=self.framework)
        text = requirements(plain, emulated=self.expected.emulated)
        digest, _ = jaxkit_sources()
        what = [text, self.spec.python or "", self.expected.devices_per_host, digest]
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()

    # ---- calling ----

    async def on_all(
        self,
        step: str,
        function: str,
        *,
        timeout: float,
        per_host: Sequence[dict[str, Any]] | None = None,
        **arguments: Any,
    ) -> list[Any]:
        """Calls *function* on all hosts at once; the first failure ends the others.

        per_host: arguments of each host.
        """
        parts = [0.0] * len(self.hosts)

        async def on_host(index: int) -> Any:
            def part(value: float) -> None:
                parts[index] = value
                self.reporter.part(step, sum(parts) / len(parts))

            own = per_host[index] if per_host else {}
            answer = await self.call(
                index, function, timeout=timeout, part=part, **arguments, **own
            )
            part(1.0)
            self.reporter.host_done(step)
            return answer

        return await gather_or_cancel([on_host(index) for index in range(len(self.hosts))])

    async def on_missing(
        self,
        step: str,
        missing: Sequence[int],
        function: str,
        *,
        timeout: float,
        **arguments: Any,
    ) -> None:
        """Calls *function* on the hosts *missing* at once, with that of each as *number*.

        A failure does not end the others. Raises what failed, with what became of the others.
        """

        async def on_host(index: int) -> None:
            await self.call(index, function, timeout=timeout, **arguments, number=index)
            self.reporter.host_done(step)

        for _ in range(len(self.hosts) - len(missing)):
            self.reporter.host_done(step)
        await finish_on_hosts({index: on_host(index) for index in missing}, len(self.hosts))

    async def call(
        self,
        index: int,
        function: str,
        *,
        timeout: float,
        part: Callable[[float], None] = lambda part: None,
        **arguments: Any,
    ) -> Any:
        return await ENVIRONMENTS.call(
            self.hosts[index],
            function,
            log=self.reporter.log,
            part=part,
            timeout=timeout,
            attempts=MOST_ATTEMPTS,
            **arguments,
        )
