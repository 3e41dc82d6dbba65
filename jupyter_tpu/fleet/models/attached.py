"""Machines that are reached by SSH alone, as TPUs of their own kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from .tpus import TPUName


class AttachMachine(Struct, kw_only=True, forbid_unknown_fields=True):
    """Machines to attach as one TPU: what the user of the server gives to `ssh`."""

    #: One for each host, host 0 first: an entry of ~/.ssh/config, or [USER@]HOST.
    ssh: Annotated[list[str], Meta(min_length=1, max_length=256)]
    #: The name of the TPU. null: made from *ssh*; allowed for one machine only.
    name: TPUName | None = None
    #: The fingerprints ("SHA256:…") that a person has compared, of host keys that the user's known
    #: hosts do not have. Each must be shown by one of the machines.
    host_keys: list[str] = []


class MachineHost(Struct, kw_only=True):
    """One machine that would be connected to."""

    ssh: str
    address: str
    port: int
    user: str
    #: Of the host key that it shows now.
    host_key: str
    #: Whether the known hosts of the server's user have this key. If not, it has to be among
    #: `host_keys`.
    known: bool


class MachineCheck(Struct, kw_only=True):
    """What attaching machines would connect to."""

    name: str
    hosts: list[MachineHost]


class DetachMachine(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a machine is forgotten.

    `end_kernels` and `end_jobs` are required while kernels or jobs run there.
    """

    end_kernels: bool = False
    end_jobs: bool = False
