"""Compute Engine's reservations, and those of calendar mode (future reservations), of TPUs.

A future reservation is COMMITTED until it begins and FULFILLED from then on: its reservation exists
from its beginning to its end, and is in use by instances that name it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from . import api_errors
from .instance_requests import check_name, seconds_of
from .instances import check_zone
from .machine_types import machine_type
from .model import Model
from .operations import rfc3339

Body = dict[str, Any]

_FAMILIES = ("TPU7X", "CT6E", "CT5P")
_DAY_SECONDS = 86_400.0


class EmulatedReservations:
    """Those of *model*."""

    def __init__(self, model: Model) -> None:
        self._model = model

    # ---- reservations ----

    def list_in(self, project: str, zone: str | None = None) -> list[Body]:
        shown = [
            self._shown(path, body)
            for path, body in sorted(self._model.reservations.items())
            if "/reservations/" in path and _is_in(path, project, zone)
        ]
        for planned in self.list_future(project, zone):
            if (
                planned["status"].get("autoCreatedReservations")
                and self._ends(planned) > self._now()
            ):
                path = f"projects/{project}/zones/{planned['zone']}/reservations/{planned['name']}"
                fields = ("name", "zone", "aggregateReservation", "specificReservationRequired")
                body = {key: planned[key] for key in fields if key in planned}
                end = rfc3339(datetime.fromtimestamp(self._ends(planned), UTC))
                shown.append(self._shown(path, {**body, "id": planned["id"], "deleteAtTime": end}))
        return shown

    def get(self, project: str, zone: str, name: str) -> Body:
        for reservation in self.list_in(project, zone):
            if reservation["name"] == name:
                return reservation
        raise api_errors.resource_not_found(f"projects/{project}/zones/{zone}/reservations/{name}")

    def insert(self, project: str, zone: str, body: Body) -> Body:
        path = self._new_path(project, zone, "reservations", body)
        specific = body.get("specificReservation") or {}
        machine = str((specific.get("instanceProperties") or {}).get("machineType", ""))
        if not body.get("aggregateReservation") and machine_type(machine) is None:
            raise api_errors.required_field("resource.specificReservation")
        return self._make(path, zone, body)

    def delete(self, project: str, zone: str, name: str) -> None:
        path = f"projects/{project}/zones/{zone}/reservations/{name}"
        if path not in self._model.reservations:
            raise api_errors.resource_not_found(path)
        del self._model.reservations[path]

    # ---- calendar mode ----

    def list_future(self, project: str, zone: str | None = None) -> list[Body]:
        return [
            {**body, "status": self._status(path, body)}
            for path, body in sorted(self._model.reservations.items())
            if "/futureReservations/" in path and _is_in(path, project, zone)
        ]

    def get_future(self, project: str, zone: str, name: str) -> Body:
        for reservation in self.list_future(project, zone):
            if reservation["name"] == name:
                return reservation
        raise api_errors.resource_not_found(_future(project, zone, name))

    def insert_future(self, project: str, zone: str, body: Body) -> Body:
        path = self._new_path(project, zone, "futureReservations", body)
        window = body.get("timeWindow") or {}
        aggregate = body.get("aggregateReservation") or {}
        if body.get("reservationMode") != "CALENDAR":
            raise api_errors.compute_invalid("The emulator has the mode CALENDAR only.")  # ours
        if not str(aggregate.get("vmFamily", "")).endswith(_FAMILIES):
            raise api_errors.required_field("resource.aggregateReservation.vmFamily")
        length = seconds_of(window.get("duration"))
        if not window.get("startTime") or not (length or window.get("endTime")):
            raise api_errors.required_field("resource.timeWindow")
        if _seconds(window["startTime"]) <= self._now():
            raise api_errors.compute_invalid("The start time must be in the future.")  # ours
        if length and not _DAY_SECONDS <= length <= 90 * _DAY_SECONDS:
            raise api_errors.compute_invalid("The duration must be 1 to 90 days.")  # ours
        return self._make(path, zone, body)

    def cancel_future(self, project: str, zone: str, name: str) -> None:
        """Before it begins."""
        reservation = self.get_future(project, zone, name)
        if reservation["status"]["procurementStatus"] != "COMMITTED":
            raise api_errors.compute_invalid(f"The future reservation {name} can't be cancelled.")
        self._model.reservations[_future(project, zone, name)]["cancelled"] = True

    def delete_future(self, project: str, zone: str, name: str) -> None:
        """One that was cancelled, or is over."""
        reservation = self.get_future(project, zone, name)
        if reservation["status"]["procurementStatus"] == "COMMITTED":
            raise api_errors.compute_invalid(f"The future reservation {name} must be cancelled.")
        del self._model.reservations[_future(project, zone, name)]

    # ---- internals ----

    def _now(self) -> float:
        return self._model.now().timestamp()

    def _new_path(self, project: str, zone: str, collection: str, body: Body) -> str:
        check_zone(project, zone)
        path = f"projects/{project}/zones/{zone}/{collection}/{check_name(body)}"
        if self._model.faults.consume("permission", zone):
            raise api_errors.permission(f"compute.{collection}.create", path)
        if path in self._model.reservations:
            raise api_errors.resource_exists(path)
        return path

    def _make(self, path: str, zone: str, body: Body) -> Body:
        made = {
            **body,
            "zone": zone,
            "id": self._model.new_id(),
            "creationTimestamp": rfc3339(self._model.now()),
        }
        self._model.reservations[path] = made
        return made

    def _status(self, path: str, body: Body) -> Body:
        if body.get("cancelled"):
            return {"procurementStatus": "CANCELLED"}
        if self._now() < _seconds(body["timeWindow"]["startTime"]):
            return {"procurementStatus": "COMMITTED"}
        made = path.replace("/futureReservations/", "/reservations/")
        return {"procurementStatus": "FULFILLED", "autoCreatedReservations": [made]}

    def _ends(self, body: Body) -> float:
        window = body["timeWindow"]
        if window.get("endTime"):
            return _seconds(window["endTime"])
        return _seconds(window["startTime"]) + seconds_of(window["duration"])

    def _shown(self, path: str, body: Body) -> Body:
        """With what instances use of it."""
        name, zone = path.rpartition("/")[2], path.split("/")[3]
        used = [
            instance
            for instance in self._model.instances.values()
            if instance.zone == zone
            and instance.tier == "reserved"
            and instance.reservation_name.rpartition("/")[2] == name
        ]
        shown = {**body, "status": "READY"}
        if aggregate := body.get("aggregateReservation"):
            count = sum(instance.machine.chips for instance in used)
            accelerator = {"acceleratorCount": count}
            in_use = [{"accelerator": accelerator}] if count else []
            shown["aggregateReservation"] = {**aggregate, "inUseResources": in_use}
        elif specific := body.get("specificReservation"):
            shown["specificReservation"] = {**specific, "inUseCount": str(len(used))}
        return shown


def _is_in(path: str, project: str, zone: str | None) -> bool:
    return path.startswith(f"projects/{project}/zones/{zone + '/' if zone else ''}")


def _future(project: str, zone: str, name: str) -> str:
    return f"projects/{project}/zones/{zone}/futureReservations/{name}"


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
