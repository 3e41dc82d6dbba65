"""The TPUs of one project: desired state, the loop that brings it about, operations and events.

`Fleet` wires the parts together; the layers of the folders are in setup.cfg.
"""

from typing import TYPE_CHECKING, Any

from .api import FleetAPI
from .kernelspecs import KernelSpecRegistry

if TYPE_CHECKING:
    from .fleet import Fleet
    from .lifecycle.defaults import EnvironmentDefaults


def __getattr__(name: str) -> Any:
    # Jupyter Server loads models and protocol when it starts, and the fleet when it is first used.
    if name == "Fleet":
        from .fleet import Fleet

        return Fleet
    if name == "EnvironmentDefaults":
        from .lifecycle.defaults import EnvironmentDefaults

        return EnvironmentDefaults
    raise AttributeError(name)
