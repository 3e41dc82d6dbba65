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
