"""Why a kernel is not started: the chips are in use, or can't be used."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from ..protocol.chosen_chips import named
from ..protocol.processes import origin
from ..protocol.records import Kernel
from .handlers import OperationError


def without_driver(tpu: str) -> OperationError:
    """The chips of the TPU *tpu* can't be used on this host."""
    return OperationError(
        "CPU_FALLBACK",
        "The chips of %s have no device files, so JAX would use the CPU." % tpu,
        "Create the TPU again with its type's default runtime version. `jupyter tpu doctor %s` "
        "checks its hosts." % tpu,
    )


def booked_by(kernel: Kernel, chips: List[int], tpu: str) -> OperationError:
    """The *kernel*, a keeper's status, was started with some of *chips* ([]: all)."""
    notebook = os.path.basename(kernel["notebook"] or "")
    who = "the kernel %s" % ("of %s" % notebook if notebook else kernel["id"])
    has = "with %s" % named(kernel["booked"]) if kernel["booked"] else "for all chips"
    return OperationError(
        "CHIPS_HELD",
        "%s in use by %s, which was started %s." % (_these(chips, tpu), who, has),
        "Shut down that kernel in the TPU panel, or with `jupyter tpu kernel stop %s %s`."
        % (tpu, kernel["id"]),
    )


def booked_meanwhile(chips: List[int], tpu: str) -> OperationError:
    """A kernel that was started at the same time got some of *chips*."""
    message = "%s in use by a kernel that was started at the same time." % _these(chips, tpu)
    return OperationError("CHIPS_HELD", message, "`jupyter tpu kernel list %s` shows it." % tpu)


def _these(chips: List[int], tpu: str) -> str:
    if not chips:
        return "The chips of %s are" % tpu
    name = named(chips)
    return "%s of %s %s" % (name[:1].upper() + name[1:], tpu, "is" if len(chips) == 1 else "are")


def held_by(holder: Dict[str, Any], tpu: str) -> OperationError:
    """*holder*, as from `ProcessOwners.name`, has them."""
    process = origin(holder["pid"])
    who = "process %d of %s" % (holder["pid"], holder["user"])
    if process["container"]:
        who += " in a container"
    if process["since"] is not None:
        who += time.strftime(" since %Y-%m-%d %H:%M UTC", time.gmtime(process["since"]))
    who += ": %s" % holder["command"]
    hint = "`jupyter tpu chips free %s` ends what uses them, after a question." % tpu
    if holder["kernel"]:
        notebook = os.path.basename(holder["notebook"])
        kernel = "of %s" % notebook if notebook else holder["kernel"]
        who = "the kernel %s (%s)" % (kernel, who)
        hint = "Shut down that kernel in the TPU panel, or with `jupyter tpu kernel stop %s %s`."
        hint %= tpu, holder["kernel"]
    elif holder["job"]:
        who = "the job %s (%s)" % (holder["job"], who)
        hint = "Stop it, or wait until it ends: `jupyter tpu job stop %s %s`."
        hint %= tpu, holder["job"]
    elif holder["run"]:
        who = "a command that `jupyter tpu run` started (%s)" % who
    return OperationError("CHIPS_HELD", "The chips of %s are in use by %s." % (tpu, who), hint)
