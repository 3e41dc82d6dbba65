"""The rows of the store, each with what is needed to go on with it."""

from __future__ import annotations

from msgspec import Struct

from ...cloud import NodeName
from ..models import ConnectTPU, CreateTPU, Environment, KeepWarm, Operation


class EnvironmentRecord(Struct, kw_only=True):
    """An environment, and how it was asked for."""

    node_id: str  # of the TPU it is on
    wanted: ConnectTPU
    environment: Environment
    hosts: int = 1  # of the TPU
    #: None: as configured.
    warm: KeepWarm | None = None


class OperationRecord(Struct, kw_only=True):
    """An operation, what it needs to go on, and the process that runs it."""

    operation: Operation
    project: str
    owner: str
    create: CreateTPU | None = None
    connect: ConnectTPU | None = None

    @property
    def name(self) -> NodeName:
        """The TPU that it is about."""
        return NodeName(self.project, self.operation.zone, self.operation.tpu)


class TunnelRecord(Struct, kw_only=True, frozen=True):
    """A tunnel that should be there, and the process that runs it."""

    id: str
    project: str
    zone: str
    tpu: str
    node_id: str  # of the TPU that was meant
    host: int
    port: int
    local_port: int
    address: str
    created: str
    owner: str

    @property
    def name(self) -> NodeName:
        return NodeName(self.project, self.zone, self.tpu)
