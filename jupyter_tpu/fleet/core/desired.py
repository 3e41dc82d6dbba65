"""What users asked for, here and in other processes: TPUs to be connected, and environments."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from ...cloud import NodeName
from ...concurrency import SharedCalls
from ...errors import TPUError
from ...subscribers import Subscribers
from .records import EnvironmentRecord, Snapshot
from .store import Store


class DesiredState:
    """The desired state of all TPUs, kept in the store.

    changed(name) is called after each change.
    """

    def __init__(self, store: Store, changed: Callable[[NodeName], None]) -> None:
        self._store = store
        self._changed = changed
        #: TPUs that should be connected, with the ids of the nodes that are meant.
        self.connected: dict[NodeName, str] = dict(store.snapshot.connected)
        self._environments: dict[NodeName, dict[str, EnvironmentRecord]] = (
            store.snapshot.environments
        )

    def names(self) -> set[NodeName]:
        """The TPUs that should be connected or that have environments."""
        return {*self.connected, *self._environments}

    def environments(self, name: NodeName) -> dict[str, EnvironmentRecord]:
        """The environments of a TPU by name."""
        return self._environments.get(name, {})

    def node_id(self, name: NodeName) -> str:
        """The id of the node that was connected; "" if there is none."""
        ids = (record.node_id for record in self.environments(name).values())
        return self.connected.get(name) or next(filter(None, ids), "")

    def connect(self, name: NodeName, node_id: str) -> None:
        """It should be connected from now on, after a restart too."""
        self.connected[name] = node_id
        self._store.set_connected(name, node_id)
        self._changed(name)

    def disconnect(self, name: NodeName) -> None:
        """It should not be connected any more. Ready environments stay, others are forgotten."""
        self.connected.pop(name, None)
        self._store.drop_connected(name)
        for env, record in list(self.environments(name).items()):
            if record.environment.state != "ready":
                del self._environments[name][env]
                self._store.drop_environment(name, env)
        self._changed(name)

    def save(self, name: NodeName, record: EnvironmentRecord) -> None:
        """Adds or replaces an environment."""
        self._environments.setdefault(name, {})[record.environment.name] = record
        self._store.save_environment(name, record)
        self._changed(name)

    def remove_environment(self, name: NodeName, environment: str) -> None:
        """It is not on the hosts any more."""
        if self._environments.get(name, {}).pop(environment, None) is not None:
            self._store.drop_environment(name, environment)
            self._changed(name)

    def forget(self, name: NodeName) -> None:
        """The TPU is gone, with all that was on it."""
        self.connected.pop(name, None)
        self._environments.pop(name, None)
        self._store.forget(name)
        self._changed(name)

    def reload(self, snapshot: Snapshot) -> None:
        """Takes over what other processes wrote."""
        for mine, theirs in (
            (self.connected, snapshot.connected),
            (self._environments, snapshot.environments),
        ):
            here: dict[NodeName, Any] = mine
            for name in {*here, *theirs}:
                if here.get(name) == theirs.get(name):
                    continue  # operations have references to it
                if name in theirs:
                    here[name] = theirs[name]
                else:
                    del here[name]
                self._changed(name)


log = logging.getLogger(__name__)

#: How long a request waits for what other processes have written; seconds. After that it is
#: answered with what this process knows.
RELOAD_SECONDS = 1.5


class SharedState:
    """Each subject that keeps something in the store adds to *reloaded* what takes it over."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reloads = SharedCalls[None, None]()  # each takes a thread's turn
        self.reloaded = Subscribers[Snapshot]()

    async def reload(self) -> None:
        """Never fails: why it can't be read or saved now is the store's problem."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELOAD_SECONDS):
                await self._reloads.get(None, self._reload)

    async def close(self) -> None:
        await self._reloads.close()

    async def _reload(self) -> None:
        try:
            async with asyncio.timeout(RELOAD_SECONDS):
                snapshot = await self._store.refresh()
        except (TimeoutError, TPUError) as error:
            log.debug("Other processes' changes are not known now: %s", error)
            return
        if snapshot is not None:
            for take_over in self.reloaded:
                take_over(snapshot)
