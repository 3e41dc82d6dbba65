"""Ports of hosts that are open here: tunnels, web applications and TensorBoard.

Tunnels open again after a restart of the server, until their user closes them.
"""

from __future__ import annotations

from ..core.core import Core
from ..core.records import Snapshot
from .apps import Apps, TensorBoardService
from .tunnels import Tunnels


class Forwarding:
    def __init__(self, core: Core) -> None:
        apps = self.apps = Apps(core)
        core.connected.ends_with_tpu(apps.forget, when_disconnected=True)
        core.changes.register("app", apps.find)
        core.ending.push_async_callback(apps.shut_down)

        tunnels = self.tunnels = Tunnels(core)
        core.connected.ends_with_tpu(tunnels.forget)
        core.tpus.register_desired(tunnels.tpus)
        core.observer.register_need(tunnels.tpus)
        core.shared.reloaded.add(self._reload)
        core.changes.register("tunnel", tunnels.find)
        core.loops.register("tunnels", tunnels.run)
        core.ending.push_async_callback(tunnels.shut_down)

        self.tensorboard = TensorBoardService(core, apps)

    def _reload(self, snapshot: Snapshot) -> None:
        self.tunnels.reload(snapshot.tunnels)
