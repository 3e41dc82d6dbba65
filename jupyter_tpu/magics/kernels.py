"""The kernels on TPUs that belong to one notebook: at most one per TPU and environment, and one
more on all hosts of a pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import TPU
    from ..kernels.specs import KernelSpec
    from .comms import Comms
    from .remote import RemoteKernel


class Key(NamedTuple):
    """Which kernel it is."""

    ref: str  # ZONE~NAME of the TPU
    environment: str
    all_hosts: bool = False  # a pod kernel


class NotebookKernels:
    """Starts, finds and ends them."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        #: The notebook's own variables.
        self.namespace = namespace
        self._kernels: dict[Key, tuple[RemoteKernel, Comms]] = {}
        #: The one used last.
        self.last: Key | None = None
        #: Where cells without ``%%tpu`` run, if they don't run here.
        self.auto: Key | None = None

    def all(self) -> dict[Key, RemoteKernel]:
        return {key: kernel for key, (kernel, _) in self._kernels.items()}

    def start(self, key: Key, spec: str, display_name: str) -> RemoteKernel:
        """The notebook's kernel there, started if it does not run."""
        from .comms import Comms
        from .remote import RemoteKernel

        if key in self._kernels and not self._kernels[key][0].alive():
            self.end(key)
        if key not in self._kernels:
            kernel = RemoteKernel(
                spec, key.ref.partition("~")[2], key.environment, display_name, key.all_hosts
            )
            try:
                kernel.start()
            except KeyboardInterrupt:
                raise TPUError(
                    f"Interrupted: this notebook has no kernel on {kernel.tpu}.", Reason.CANCELLED
                ) from None
            self._kernels[key] = (kernel, Comms(kernel))
        self.last = key
        return self._kernels[key][0]

    @property
    def last_tpu(self) -> str | None:
        """The TPU that was used last, as ZONE~NAME."""
        return self.last and self.last[0]

    def use(
        self, name: str | None, environment: str | None, all_hosts: bool | None = None
    ) -> tuple[RemoteKernel, Comms]:
        """The kernel for a cell, started if there is none; raises CONFLICT if it has died.

        all_hosts: the pod kernel, or not; None: the one that there is, else that of one host.
        """
        key = self._choose(name, environment, all_hosts)
        kernel, comms = self._kernels[key]
        if not kernel.alive():
            self.end_kernel(kernel)
            raise TPUError(
                f"This notebook's kernel on {kernel.tpu} has ended.",
                Reason.CONFLICT,
                "Run the cell again to start a new one, without the old one's variables.",
            )
        self.last = key
        return kernel, comms

    def end(self, key: Key) -> None:
        kernel, comms = self._kernels.pop(key)
        if self.last == key:
            self.last = None
        comms.close()
        kernel.end()

    def end_kernel(self, kernel: RemoteKernel) -> None:
        """Ends a kernel whose TPU stays the default: the next cell there starts a new one."""
        for key, remote_kernel in self.all().items():
            if remote_kernel is kernel:
                self.end(key)
                self.last = key

    def end_all(self) -> None:
        for key in tuple(self._kernels):
            self.end(key)

    def _choose(self, name: str | None, environment: str | None, all_hosts: bool | None) -> Key:
        ref = None if name is None else name.replace("/", "~", 1)
        if name is None and self.last is not None:
            ref, environment = self.last.ref, environment or self.last.environment
            all_hosts = self.last.all_hosts if all_hosts is None else all_hosts
        for key in self._kernels:
            if (
                (ref is None or ref in (key.ref, key.ref.partition("~")[2]))
                and environment in (None, key.environment)
                and all_hosts in (None, key.all_hosts)
            ):
                return key
        specs = [
            spec
            for spec in kernelspecs(all_hosts=bool(all_hosts))
            if (ref is None or ref in (spec.place.tpu, _ref(spec)))
            and environment in (None, spec.place.environment)
        ]
        if len(specs) > 1 and environment is None:
            specs = [spec for spec in specs if spec.place.environment == "default"]
        if not specs:
            kind = " for all hosts" if all_hosts else ""
            raise TPUError(
                f"{ref or 'No TPU'} has {'no' if ref else 'a'} kernel{kind} in this Jupyter.",
                Reason.NOT_FOUND,
                f"Add one: %tpu connect {ref or 'NAME'}",
            )
        if len(specs) > 1:
            names = ", ".join(sorted({_ref(spec).replace("~", "/") for spec in specs}))
            raise InvalidInput(f"Several TPUs have a kernel here: {names}.", "Use %%tpu NAME.")
        [spec] = specs
        key = Key(_ref(spec), spec.place.environment, bool(all_hosts))
        self.start(key, spec.name, spec.display_name)
        return key


def kernelspecs(*, all_hosts: bool = False) -> list[KernelSpec]:
    """The kernels of TPUs in this Jupyter, from their files: those of one host with all its chips,
    or those of all hosts.
    """
    from ..kernels import KernelSpecs

    return [
        spec
        for spec in KernelSpecs().list()
        if ((spec.place.hosts and not spec.place.slices) if all_hosts else spec.place.is_default)
    ]


def kernelspec_of(tpu: TPU, environment: str, *, all_hosts: bool = False) -> tuple[str, str] | None:
    """The kernelspec and display name of a ready environment of a connected TPU."""
    if tpu.connection == "disconnected":
        return None
    for record in tpu.environments:
        if record.name == environment and record.state == "ready" and record.kernelspec:
            if not all_hosts:
                return record.kernelspec, record.display_name
            if record.pod_kernelspec:
                return record.pod_kernelspec, record.pod_display_name
    return None


def _ref(spec: KernelSpec) -> str:
    return f"{spec.place.zone}~{spec.place.tpu}"
