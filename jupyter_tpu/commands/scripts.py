"""Local Python files that run on hosts, and the TPU that is meant if none is named."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from .session import Session

#: Where scripts are on hosts, in the home folder; each in a folder of its own.
FOLDER = ".cache/jupyter-tpu/scripts"
#: Writes the standard input to the file $2 in the folder $1 in one step.
_WRITE = 'umask 077; mkdir -p "$1" && cat >"$1/.$2.part" && mv -f "$1/.$2.part" "$1/$2"'
#: Becomes Python with that file, in any folder.
_EXECUTE = 'exec python3 -u "$HOME/$0" "$@"'


def only_tpu(session: Session) -> str:
    """The one TPU that is READY; raises INVALID if there are several, NOT_FOUND if none is."""
    found = [each for each in session.call(session.fleet.tpus()).tpus if each.state == "READY"]
    if len(found) == 1:
        return f"{found[0].zone}~{found[0].name}"
    if found:
        names = ", ".join(each.name for each in found)
        raise InvalidInput(f"Several TPUs are READY: {names}.", "Choose one with --tpu NAME.")
    raise TPUError("No TPU is READY.", Reason.NOT_FOUND, "Create or start one.")


def send_script(session: Session, ref: str, script: Path, hosts: str) -> tuple[str, list[str]]:
    """Sends a script to hosts; returns the folder it is in there, and the command that runs it.

    Raises INVALID for a file that can't be read, UNREACHABLE if a host did not get it.
    """
    from ..fleet.models import RunInput, StartRun
    from . import runs

    try:
        data = script.read_bytes()
    except OSError as error:
        raise InvalidInput(f"Can't read {script}: {error.strerror}.") from None
    folder = f"{FOLDER}/{hashlib.sha256(str(script.resolve()).encode()).hexdigest()[:16]}"
    command = ["sh", "-c", _WRITE, "sh", folder, script.name]
    sending = runs.start(session, ref, StartRun(command=command, hosts=hosts, input=True))
    tpu = f"{sending.zone}~{sending.tpu}"
    session.call(session.fleet.runs.write(tpu, sending.id, RunInput(data=data, end=True)))
    said = bytearray()
    sent = runs.follow(session, sending, runs.RawOutput(lambda _, text: said.extend(text)))
    if sent.code:
        problem = " ".join(runs.summary(sent))
        lines = said.decode("utf-8", "replace").splitlines()[:1]
        raise TPUError(
            f"{script.name} could not be sent to all hosts of {sent.tpu}: "
            + " ".join([problem, *lines]),
            Reason.UNREACHABLE,
            "It was not run.",
        )
    return folder, ["sh", "-c", _EXECUTE, f"{folder}/{script.name}"]
