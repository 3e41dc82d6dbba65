"""Which cloud: Google's, or an emulator's state file; which project and default zone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ..errors import Reason, TPUError
from . import gcloud

EMULATOR_VARIABLE = "JUPYTER_TPU_EMULATOR"


class Target(Struct, frozen=True, kw_only=True):
    """Where calls go. Cheap to construct: the emulator's file is not read yet."""

    emulator: str | None = None  # path of its state file
    project: str | None = None
    zone: str | None = None

    @classmethod
    def from_environment(
        cls,
        *,
        emulator: str | None = None,
        project: str | None = None,
        zone: str | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Target:
        """What is given here, else ``JUPYTER_TPU_EMULATOR``, else what gcloud is set to.

        With an emulator, project and zone are the emulator's own unless given here.
        """
        emulator = emulator or environ.get(EMULATOR_VARIABLE) or None
        if emulator:
            return cls(emulator=emulator, project=project, zone=zone)
        return cls(
            project=project or gcloud.project(environ),
            zone=zone or gcloud.zone(environ),
        )


class EmulatorAddress(Struct, frozen=True, kw_only=True):
    """The part of an emulator's state file that is needed here."""

    id: str
    grpc: str  # "127.0.0.1:PORT"
    token_file: str
    rest: str = ""  # "http://127.0.0.1:PORT"
    project: str = "emulated"
    zone: str | None = None


def read_emulator(state_file: str) -> EmulatorAddress:
    """Raises UNAVAILABLE where there is no emulator at that file."""
    from msgspec import ValidationError, convert

    try:
        return convert(json.loads(Path(state_file).read_text(encoding="utf-8")), EmulatorAddress)
    except FileNotFoundError:
        problem = "there is no such file"
    except (OSError, UnicodeDecodeError) as error:
        problem = f"it can't be read ({error.__class__.__name__})"
    except (ValueError, ValidationError):
        problem = "it is not an emulator's state file"
    raise TPUError(
        f"The emulator of {state_file} can't be reached: {problem}.",
        Reason.UNAVAILABLE,
        f"Start it with `jupyter tpu emulator`, or unset {EMULATOR_VARIABLE}.",
    )


class Place:
    """What a *target* means now: its project and zone, and its emulator's address, if it has one.

    Files are read when they are needed, and again when they have changed.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._address: EmulatorAddress | None = None
        self._changed = 0  # when the state file was last changed, ns

    @property
    def emulator(self) -> EmulatorAddress | None:
        """None where it is Google's; raises UNAVAILABLE where the emulator's file is missing."""
        path = self.target.emulator
        if path is None:
            return None
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:
            changed = 0
        if self._address is None or changed != self._changed:
            self._address = read_emulator(path)
            self._changed = changed
        return self._address

    @property
    def identity(self) -> str:
        """ "google", or "emulator:ID"."""
        address = self.emulator
        return f"emulator:{address.id}" if address is not None else "google"

    @property
    def project(self) -> str:
        """The project of new TPUs and of lists; NO_PROJECT where none is set."""
        if self.target.project:
            return self.target.project
        if (address := self.emulator) is not None:
            return address.project
        raise TPUError(
            "No Google Cloud project is set.",
            Reason.NO_PROJECT,
            "Set one with `gcloud config set project PROJECT`. To try it without Google Cloud: "
            "`jupyter tpu emulator`.",
        )

    @property
    def zone(self) -> str | None:
        """The default zone, if one is set."""
        if self.target.zone or self.target.emulator is None:
            return self.target.zone
        address = self.emulator
        assert address is not None
        return address.zone
