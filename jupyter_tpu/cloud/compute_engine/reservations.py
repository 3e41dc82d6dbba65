"""Reservations of TPUs, and those of calendar mode (future reservations) that are to become one."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ... import catalog
from ...errors import InvalidInput, Reason, TPUError
from ..models import Reservation, ReservationSpec
from .calls import ComputeCalls, readable

Body = Mapping[str, Any]

_REQUESTS = uuid.UUID("4e0a8a44-1c80-4c57-9a25-1d1c60a37a0f")
#: Generation → the family of machines, and Google's name of it for a reservation.
FAMILIES = {
    "tpu7x": ("tpu7x", "VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X"),
    "v6e": ("ct6e", "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E"),
    "v5p": ("ct5p", "VM_FAMILY_CLOUD_TPU_POD_SLICE_CT5P"),
}
_GENERATIONS = {family: generation for generation, (_, family) in FAMILIES.items()}
#: Seconds before each look for what may have been made.
_LOOKS = (0.0, 1.0, 3.0)
#: States of a future reservation that has no more to come.
_OVER = ("CANCELLED", "DECLINED", "FAILED")


async def all_of(calls: ComputeCalls, project: str) -> tuple[Reservation, ...]:
    """Those that are there first."""
    made, _ = await calls.aggregated(project, "reservations")
    coming, _ = await calls.aggregated(project, "futureReservations")
    with readable("reservations"):
        there = [reservation for reservation in map(_reservation, made) if reservation is not None]
        names = {(reservation.zone, reservation.name) for reservation in there}
        later = [future(reservation) for reservation in coming if _is_tpu(reservation)]
        dates = {
            (reservation.zone, reservation.use or reservation.name): reservation
            for reservation in later
        }
        dated = [
            _dated(reservation, dates.get((reservation.zone, reservation.name)))
            for reservation in there
        ]
    return (
        *dated,
        *(
            reservation
            for reservation in later
            if (reservation.zone, reservation.use or reservation.name) not in names
        ),
    )


async def reserve(calls: ComputeCalls, project: str, spec: ReservationSpec) -> Reservation:
    path = f"projects/{project}/zones/{spec.zone}/futureReservations"
    body = request_body(project, spec)
    id = uuid.uuid5(_REQUESTS, repr((project, spec)))
    try:
        await calls.change("POST", path, body, id=str(id))
    except TPUError as error:
        if error.reason not in (Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.INTERNAL):
            raise
        if not await _was_made(calls, f"{path}/{spec.name}"):
            raise TPUError(
                f"It is not known whether Google has the reservation {spec.name}: {error.message}",
                error.reason,
                "Look with `jupyter tpu reservation list` before you ask for it again. The same "
                "request again is not a second one.",
            ) from error
    with readable("a future reservation"):
        return future(await calls.read(f"{path}/{spec.name}"))


async def _was_made(calls: ComputeCalls, path: str) -> bool:
    """Whether it exists, although the answer was lost; False: that is not known."""
    for pause in _LOOKS:
        await asyncio.sleep(pause)
        with contextlib.suppress(TPUError):
            if await calls.find(path) is not None:
                return True
    return False


def request_body(project: str, spec: ReservationSpec) -> dict[str, Any]:
    """compute.FutureReservation."""
    if spec.generation not in FAMILIES:
        raise InvalidInput(
            f"Calendar mode is not known for {spec.generation}.",
            f"Choose {', '.join(FAMILIES)}.",
            field="type",
        )
    machine, family = FAMILIES[spec.generation]
    place = f"projects/{project}/zones/{spec.zone}"
    return {
        "name": spec.name,
        "reservationMode": "CALENDAR",
        "planningStatus": "SUBMITTED",
        "specificReservationRequired": True,
        "reservationName": spec.name,
        "autoDeleteAutoCreatedReservations": True,
        "deploymentType": "DENSE",
        "timeWindow": {"startTime": spec.start, "duration": {"seconds": str(spec.seconds)}},
        "aggregateReservation": {
            "vmFamily": family,
            "workloadType": spec.workload.upper(),
            "reservedResources": [
                {
                    "accelerator": {
                        "acceleratorType": f"{place}/acceleratorTypes/{machine}",
                        "acceleratorCount": spec.chips,
                    }
                }
            ],
        },
    }


def future(data: Body) -> Reservation:
    """What Google says of a future reservation."""
    window, status = data.get("timeWindow", {}), data.get("status", {})
    start = str(window.get("startTime", ""))
    end = str(window.get("endTime", ""))
    if start and not end and window.get("duration"):
        length = timedelta(seconds=int(window["duration"]["seconds"]))
        end = (datetime.fromisoformat(start) + length).isoformat()
    made = [str(url).rpartition("/")[2] for url in status.get("autoCreatedReservations", ())]
    state = str(status.get("procurementStatus", ""))
    type, chips, _ = _resources(data)
    return Reservation(
        name=str(data["name"]),
        zone=_last(data["zone"]),
        type=type,
        chips=chips,
        state=state,
        future=True,
        start=start,
        end=end,
        use=made[0] if made and state not in _OVER else "",
    )


def _reservation(data: Body) -> Reservation | None:
    """None for one of other machines."""
    if not _is_tpu(data):
        return None
    type, chips, used = _resources(data)
    ready = data.get("status") == "READY"
    return Reservation(
        name=str(data["name"]),
        zone=_last(data["zone"]),
        type=type,
        chips=chips,
        used=used,
        state=str(data.get("status", "")),
        end=str(data.get("deleteAtTime", "")),
        use=str(data["name"]) if ready else "",
    )


def _dated(one: Reservation, planned: Reservation | None) -> Reservation:
    """A reservation with the dates of the future reservation that it was."""
    if planned is None:
        return one
    return Reservation(
        name=one.name,
        zone=one.zone,
        type=one.type or planned.type,
        chips=one.chips if one.chips is not None else planned.chips,
        used=one.used,
        state=one.state,
        start=planned.start,
        end=one.end or planned.end,
        use=one.use,
    )


def _is_tpu(data: Body) -> bool:
    aggregate = data.get("aggregateReservation", {})
    return "TPU" in str(aggregate.get("vmFamily", "")) or catalog.is_machine_type(_machine(data))


def _machine(data: Body) -> str:
    for key in ("specificReservation", "specificSkuProperties"):
        properties = data.get(key, {}).get("instanceProperties", {})
        if properties.get("machineType"):
            return _last(properties["machineType"])
    return ""


def _resources(data: Body) -> tuple[str, int | None, int | None]:
    """Its type, chips, and how many of them are in use."""
    if aggregate := data.get("aggregateReservation"):
        family = str(aggregate.get("vmFamily", ""))
        reserved, used = (
            sum(
                int(accelerator["accelerator"]["acceleratorCount"])
                for accelerator in aggregate.get(key, ())
            )
            for key in ("reservedResources", "inUseResources")
        )
        return _GENERATIONS.get(family, family), reserved, used
    machine, specific = _machine(data), data.get("specificReservation", {})
    if not specific:
        return machine, None, None
    chips_per_machine = catalog.type_of_machine(machine, "").chips
    count, in_use = int(specific.get("count", 0)), int(specific.get("inUseCount", 0))
    return machine, count * chips_per_machine, in_use * chips_per_machine


def _last(url: object) -> str:
    return str(url).rpartition("/")[2]
