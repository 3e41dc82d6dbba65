"""Which logs of a TPU Cloud Logging does not store.

Google documents no switch for the agent on the hosts of a TPU, but exclusions: entries that match
the filter of one are not stored, and not charged
(https://cloud.google.com/logging/docs/routing/overview#exclusions). Entries of a TPU's hosts have
the resource type ``tpu_worker``, and its name as ``node_id``
(https://cloud.google.com/tpu/docs/troubleshooting/dashboards).
"""

from __future__ import annotations

from ..errors import Reason, TPUError
from .google_apis import GoogleAPIs
from .models import NodeName

#: What Cloud Logging costs, and from when that is:
#: https://cloud.google.com/stackdriver/pricing#cloud-logging-pricing-summary
USD_PER_GIB, FREE_GIB, PRICE_DATE = 0.50, 50, "2026-09-12"


def log_filter(name: NodeName) -> str:
    """What matches the logs of the hosts of a TPU."""
    return (
        f'resource.type="tpu_worker" AND resource.labels.node_id="{name.node}" '
        f'AND resource.labels.zone="{name.zone}"'
    )


class LogExclusion:
    """The exclusion of the logs of one TPU. All methods raise what `GoogleAPIs` raises."""

    def __init__(self, apis: GoogleAPIs, name: NodeName) -> None:
        self._apis = apis
        self._name = name
        self._root = f"/v2/projects/{name.project}/exclusions"
        self._id = f"jupyter-tpu_{name.zone}_{name.node}"

    async def exists(self) -> bool:
        """Whether the logs are not stored."""
        try:
            exclusion = await self._apis.get("logging", f"{self._root}/{self._id}")
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return False
            raise
        return not exclusion.get("disabled")

    async def create(self) -> None:
        """One that someone has disabled is enabled."""
        body = {
            "name": self._id,
            "description": f"Logs of the TPU {self._name.node}. Made by jupyter-tpu.",
            "filter": log_filter(self._name),
        }
        try:
            await self._apis.post("logging", self._root, body)
        except TPUError as error:
            if error.reason is not Reason.CONFLICT:  # it exists
                _name_role(error)
                raise
            await self._apis.call(
                "PATCH",
                "logging",
                f"{self._root}/{self._id}",
                {**body, "disabled": False},
                updateMask="filter,disabled",
            )

    async def delete(self) -> None:
        try:
            await self._apis.call("DELETE", "logging", f"{self._root}/{self._id}")
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                _name_role(error)
                raise


def _name_role(error: TPUError) -> None:
    if "roles/tpu.admin" in error.hint:
        error.hint = (
            "Ask the project's owner for the role Logs Configuration Writer "
            "(roles/logging.configWriter), or to do this for you."
        )
