"""TPU kernels for jupyter_client and VS Code: provisioner, kernelspecs, launcher.

Each running kernel has a relay on the links' core thread.
"""

from typing import Any

from .specs import KernelSpecs


def __getattr__(name: str) -> Any:
    # Loaded on demand: fleet needs only KernelSpecs.
    if name == "TPUProvisioner":
        from .provisioner import TPUProvisioner

        return TPUProvisioner
    raise AttributeError(name)
