"""What has to be right in a project before TPUs work: networks, keys, logging; and the doctor.

The doctor says what is wrong and how to mend it, and changes nothing.
"""

from __future__ import annotations

from ..core.core import Core
from ..lifecycle import Lifecycle
from .doctor import Doctor, MaintenanceWatch
from .networks import LogService, NetworkService
from .preflight import Preflight
from .ssh_keys import SSHKeyService, Tokens


class Setup:
    def __init__(self, core: Core, lifecycle: Lifecycle) -> None:
        cloud = core.cloud
        self.tokens = Tokens()
        self.networks = NetworkService(cloud, core.connections)
        self.ssh_key = SSHKeyService(cloud, core.links.login_changed)
        self.logs = LogService(cloud, core.finder)
        preflight = Preflight(cloud, lifecycle.availability, core.links.key_metadata)
        self.doctor = Doctor(core, preflight.check)
        self.maintenance = MaintenanceWatch(cloud, core.observed, core.changes.mark_tpus_changed)
        core.observer.polled.add(lambda _: self.maintenance.polled())
        core.loops.register("maintenance", self.maintenance.run, always=True)
