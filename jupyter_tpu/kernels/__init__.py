"""A face: TPU kernels for jupyter_client and VS Code; provisioner, kernelspecs, launcher.

Everything that runs all the time is a relay on the links' core thread.
"""

from typing import Any

from .specs import KernelSpecs

__all__ = ["KernelSpecs", "TPUProvisioner"]


def __getattr__(name: str) -> Any:
    # Loaded when jupyter_client asks for it: fleet's registrar needs none of it.
    if name == "TPUProvisioner":
        from .provisioner import TPUProvisioner

        return TPUProvisioner
    raise AttributeError(name)
