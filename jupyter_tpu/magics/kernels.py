"""The kernels on TPUs that belong to one notebook: at most one per TPU and environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.models import TPU
    from ..kernels.specs import KernelSpec
    from .comms import Comms
    from .remote import RemoteKernel

#: A TPU (ZONE~NAME) and an environment.
Key = tuple[str, str]


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

    def start(self, ref: str, environment: str, spec: str, display_name: str) -> RemoteKernel:
        """The notebook's kernel there, started if it does not run."""
        from .comms import Comms
        from .remote import RemoteKernel

        key = (ref, environment)
        if key in self._kernels and not self._kernels[key][0].alive():
            self.end(key)
        if key not in self._kernels:
            kernel = RemoteKernel(spec, ref.partition("~")[2], environment, display_name)
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

    def use(self, name: str | None, environment: str | None) -> tuple[RemoteKernel, Comms]:
        """The kernel for a cell, started if there is none; raises CONFLICT if it has died."""
        key = self._choose(name, environment)
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

    def _choose(self, name: str | None, environment: str | None) -> Key:
        ref = None if name is None else name.replace("/", "~", 1)
        if name is None and self.last is not None:
            ref, environment = self.last[0], environment or self.last[1]
        for key in self._kernels:
            if (ref is None or ref in (key[0], key[0].partition("~")[2])) and (
                environment in (None, key[1])
            ):
                return key
        kernel_specs = [
            spec
            for spec in kernelspecs()
            if (ref is None or ref in (spec.config["tpu"], _ref(spec)))
            and environment in (None, spec.config["environment"])
        ]
        if len(kernel_specs) > 1 and environment is None:
            kernel_specs = [
                spec for spec in kernel_specs if spec.config["environment"] == "default"
            ]
        if not kernel_specs:
            raise TPUError(
                f"{ref or 'No TPU'} has {'no' if ref else 'a'} kernel in this Jupyter.",
                Reason.NOT_FOUND,
                f"Add one: %tpu connect {ref or 'NAME'}",
            )
        if len(kernel_specs) > 1:
            names = ", ".join(sorted({_ref(spec).replace("~", "/") for spec in kernel_specs}))
            raise InvalidInput(f"Several TPUs have a kernel here: {names}.", "Use %%tpu NAME.")
        spec = kernel_specs[0]
        key = _ref(spec), spec.config["environment"]
        self.start(*key, spec.name, spec.display_name)
        return key


def kernelspecs() -> list[KernelSpec]:
    """The kernels of TPUs in this Jupyter, from their files; without those of single chips."""
    from ..kernels import KernelSpecs

    return [spec for spec in KernelSpecs().list() if spec.is_default]


def kernelspec_of(tpu: TPU, environment: str) -> tuple[str, str] | None:
    """The kernelspec and display name of a ready environment of a connected TPU."""
    for each in tpu.environments:
        if each.name == environment and each.state == "ready" and each.kernelspec:
            return (
                (each.kernelspec, each.display_name) if tpu.connection != "disconnected" else None
            )
    return None


def _ref(spec: KernelSpec) -> str:
    return f"{spec.config['zone']}~{spec.config['tpu']}"
