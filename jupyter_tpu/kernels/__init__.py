"""TPU kernels for jupyter_client and VS Code: provisioner, kernelspecs, launcher.

Each running kernel has a relay on the links' core thread.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names

if TYPE_CHECKING:
    from .provisioner import TPUProvisioner
    from .specs import KernelSpecs

#: Loaded at first use: Jupyter Server's start needs none of it, and the fleet only KernelSpecs.
__getattr__ = lazy_names(__name__, {"provisioner": "TPUProvisioner", "specs": "KernelSpecs"})
