"""Machines that are reached by SSH alone, as TPUs of their own kind."""

from __future__ import annotations

from msgspec import Struct

from .tpus import TPUName


class AttachMachine(Struct, kw_only=True, forbid_unknown_fields=True):
    """A machine to attach: what the user of the server gives to `ssh`."""

    #: An entry of ~/.ssh/config, or [USER@]HOST.
    ssh: str
    #: Its name here; None: made from *ssh*.
    name: TPUName | None = None
    #: The fingerprint ("SHA256:…") that somebody has compared, of a host key that the user's known
    #: hosts do not have.
    host_key: str = ""


class MachineCheck(Struct, kw_only=True):
    """What attaching a machine would connect to."""

    name: str
    ssh: str
    address: str
    port: int
    user: str
    #: Of the host key that it shows now.
    host_key: str
    #: Whether the known hosts of the server's user have this key. If not, `host_key` is required.
    known: bool


class DetachMachine(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a machine is forgotten; each is required while such run there."""

    end_kernels: bool = False
    end_jobs: bool = False
