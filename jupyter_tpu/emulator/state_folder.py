"""The emulator's state folder: one lock, the token, the memory, and the state file for clients.

```
STATE/                0700
  lock                held while an emulator runs; has its pid
  token               0600: whoever can read it has full access
  emulator.json       0600: the state file (EmulatorState); there while the emulator runs
  memory.json         0600: the model: nodes, operations
  ports.json          the ports of the last run, tried first by the next
  iap.pem             0600: key and certificate of the tunnels of Identity-Aware Proxy
  hosts/              the hosts' files, one folder each
  storage/            Cloud Storage: see storage/contents.py
```
"""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

import msgspec
from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError
from ..local_files import try_lock, write_atomically
from ..paths import data_dir, private_dir
from .model.snapshot import EmulatorSnapshot

S = TypeVar("S", bound=Struct)

PROJECT = "emulated"
ZONE = "us-central1-a"


class EmulatorState(Struct, kw_only=True):
    """The state file: where a running emulator is reached. Readable by its owner only."""

    id: str
    pid: int
    rest: str  # "http://127.0.0.1:N"
    grpc: str  # "127.0.0.1:M"
    token_file: str
    project: str = PROJECT
    zone: str = ZONE  # a default for what names none
    state_dir: str
    #: How hosts are run: "root", "subuid", "user" or "fallback"; and what that leaves out.
    mode: str = ""
    skipped: list[str] = []

    @property
    def path(self) -> Path:
        """Where this is written."""
        return state_file(Path(self.state_dir))

    @classmethod
    def read(cls, path: Path) -> EmulatorState:
        """Raises TPUError if there is none, or it is not one."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            raise TPUError(
                f"No emulator runs with the state file {path}.",
                Reason.UNAVAILABLE,
                "Start one with `jupyter tpu emulator`.",
            ) from None
        except (msgspec.MsgspecError, OSError) as error:
            raise InvalidInput(
                f"The emulator's state file {path} can't be read: {error}."
            ) from None


class EmulatorPorts(Struct, kw_only=True):
    rest: int = 0
    grpc: int = 0


class EmulatorToken:
    """The bearer token that every call must show."""

    def __init__(self, path: Path) -> None:
        """Reads it from *path*, or makes one there (0600)."""
        self.path = path
        if not path.exists() or path.stat().st_mode & 0o077:
            write_atomically(path, secrets.token_urlsafe(32).encode())
        self._value = path.read_text().strip()

    def allows(self, authorization: str | bytes) -> bool:
        """Whether an Authorization header's value shows it; takes the same time either way."""
        sent = authorization.encode() if isinstance(authorization, str) else authorization
        return hmac.compare_digest(sent, f"Bearer {self._value}".encode())

    def sign(self, text: str) -> str:
        """A secret that belongs to *text*, as hexadecimal digits."""
        return hmac.digest(self._value.encode(), text.encode(), "sha256").hex()

    def is_signed(self, text: str, signature: str) -> bool:
        """Whether *signature* is that of *text*; takes the same time either way."""
        return hmac.compare_digest(self.sign(text).encode(), signature.encode())


class StateFolder:
    """The folder of one emulator, locked for as long as this is open."""

    def __init__(self, path: Path) -> None:
        """Raises TPUError (CONFLICT) naming the process that has the folder already."""
        self.path = private_dir(path).resolve()
        self._lock = _lock(self.path / "lock")
        self.token = EmulatorToken(self.path / "token")
        self.state_file = state_file(self.path)
        self.hosts = private_dir(self.path / "hosts")
        self.storage = self.path / "storage"

    def load(self) -> EmulatorSnapshot:
        return self._read("memory.json", EmulatorSnapshot) or EmulatorSnapshot(
            id=secrets.token_hex(8)
        )

    def save(self, snapshot: EmulatorSnapshot) -> None:
        write_atomically(self.path / "memory.json", msgspec.json.encode(snapshot))

    def load_ports(self) -> EmulatorPorts:
        return self._read("ports.json", EmulatorPorts) or EmulatorPorts()

    def save_ports(self, ports: EmulatorPorts) -> None:
        write_atomically(self.path / "ports.json", msgspec.json.encode(ports))

    def publish(self, state: EmulatorState) -> None:
        write_atomically(self.state_file, msgspec.json.format(msgspec.json.encode(state)))

    def close(self) -> None:
        """Removes the state file and unlocks the folder."""
        with suppress(FileNotFoundError):
            self.state_file.unlink()
        self._lock.close()

    def _read(self, name: str, kind: type[S]) -> S | None:
        path = self.path / name
        try:
            return msgspec.json.decode(path.read_bytes(), type=kind)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise InvalidInput(
                f"The emulator's file {path} is damaged: {error}.",
                f"Remove {self.path} to begin with an empty emulator.",
            ) from None


def default_state_dir() -> Path:
    """The default folder of the emulator's state."""
    return data_dir() / "emulator"


def state_file(state_dir: Path) -> Path:
    """Where an emulator with that folder writes its state file."""
    return state_dir / "emulator.json"


def _lock(path: Path) -> IO[str]:
    file = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")  # noqa: SIM115 – kept open
    if not try_lock(file.fileno()):
        pid = file.read().strip() or "unknown"
        file.close()
        raise TPUError(
            f"An emulator already runs in {path.parent} (process {pid}).",
            Reason.CONFLICT,
            "Use it, stop it, or choose another folder with --state.",
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
