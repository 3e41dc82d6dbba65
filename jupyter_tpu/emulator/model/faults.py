"""Faults that tests inject through the admin call ``POST /emulator/v1/faults``.

The body is a `Fault` as JSON. Kinds that happen at once to one *node*, which must be READY:

- ``preempt`` (the hosts hear of it *seconds* (0) before), ``reboot``, ``maintenance`` (which no one
  announced), ``cut-links``;
- ``run-over``: the time that it runs is over (flex-start); it is ACTIVE in the queue;
- ``state``: it is in *state* from then on, with *health* and *description*;
- ``tpu-node``: it is one of the retired architecture from then on, and has no hosts to log in to;
- ``announce-maintenance``: the node shows it as upcoming in *seconds* (7 days). Then it begins,
  or before, by ``performMaintenance``.

Kinds that hit the next *count* calls in *zone*, or all until the fault is deleted:

- ``no-capacity``: creates and starts fail after they began, with code 8 in the operation; queued
  resources wait. *type* (or a generation) and *tier* say which; *chips* of them there are.
- ``quota``: CreateNode is refused with RESOURCE_EXHAUSTED, queued resources fail. Its limit is
  *chips*, of *type* and *tier*.
- ``permission``: calls that change a node are refused with PERMISSION_DENIED.
- ``refuse-delete``: DeleteNode is refused while the node is CREATING.
- ``slow``: operations take *seconds* longer.
- ``unreachable``: lists name the zone as unreachable (never used up).
- ``unlisted``: lists lack *node*, although it exists.
- ``api-disabled``: calls of *method* are refused, until the API is enabled by Service Usage.
- ``error``: calls of *method* fail with *code*, and change nothing.
- ``lost-answer``: calls of *method* are carried out, and then fail with *code* anyway.
- ``silent``: calls of *method* get no answer for *seconds*, or until the fault is deleted. Then
  they are carried out, unless a gRPC client has given up.

Kinds of Compute Engine's instances only, for which most of the above work, too:

- ``vanish``: the wait of a PENDING one ends at once, and with it the instance;
- ``host-error``: a running one is TERMINATED, and starts again after *seconds* (0);
- ``late-error``: what is made fails with INTERNAL_ERROR after it was STAGING (*type*, *tier*);
- ``empty-group``: groups make no instances, and name no error;
- ``no-external-addresses``: an organisation's policy forbids them.

Kinds of Cloud Storage only, where *zone* is the location of the bucket ("us-central1", "us"):

- ``slow-transfer``: the body of a call moves at *bytes_per_second*;
- ``cut-transfer``: the connection ends before more than *bytes* of a body have moved.

And ``line``: the first host of *node* publishes *port* as its SSH port, where a test has a proxy.

*method* is a call's gRPC name ("CreateNode", "GetOperation"), or one of Compute Engine
("instances.insert") or Cloud Storage ("objects.insert"); without it, all calls of these APIs are
hit, polls of operations too. *code* is a name of google.rpc.Code.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from .api_errors import CODES, ApiError
from .records import Tier

FaultKind = Literal[
    "no-capacity",
    "quota",
    "permission",
    "refuse-delete",
    "slow",
    "unreachable",
    "unlisted",
    "api-disabled",
    "error",
    "lost-answer",
    "silent",
    "preempt",
    "reboot",
    "maintenance",
    "announce-maintenance",
    "run-over",
    "state",
    "tpu-node",
    "cut-links",
    "line",
    "late-error",
    "empty-group",
    "no-external-addresses",
    "vanish",
    "host-error",
    "slow-transfer",
    "cut-transfer",
]
#: Names of Node.State and Node.Health.
NodeState = Literal[
    "CREATING", "READY", "RESTARTING", "REIMAGING", "DELETING", "REPAIRING", "STOPPED", "STOPPING",
    "STARTING", "PREEMPTED", "TERMINATED", "HIDING", "HIDDEN", "UNHIDING", "UNKNOWN",
]  # fmt: skip
NodeHealth = Literal["HEALTHY", "TIMEOUT", "UNHEALTHY_TENSORFLOW", "UNHEALTHY_MAINTENANCE"]
#: Faults that happen at once to a node. The others wait for calls.
IMMEDIATE: tuple[str, ...] = (
    *("preempt", "reboot", "maintenance", "announce-maintenance", "run-over", "state", "tpu-node"),
    *("cut-links", "vanish", "host-error"),
)
_CODES_BY_NAME = {name: code for code, (name, _) in CODES.items()}


class Fault(Struct, kw_only=True, forbid_unknown_fields=True):
    """A fault to inject; see the top of this file."""

    kind: FaultKind
    #: The zone; None: every zone.
    zone: str | None = None
    #: The node (its id or full path), for immediate faults, for "line" and for "unlisted".
    node: str | None = None
    #: The name of the calls that it hits; None: all ("error", "lost-answer", "silent").
    method: str | None = None
    #: "no-capacity", "quota", "late-error": a type ("v5litepod-8"), machine type or generation
    #: ("v5e"); None: all.
    type: str | None = None
    #: The same; None: all.
    tier: Tier | None = None
    #: "no-capacity", "quota": how many chips there may be; it hits what would be more.
    chips: int = 0
    #: How many calls it hits; None: all, until it is deleted.
    count: int | None = None
    #: How much longer an operation takes ("slow": 10), or a call ("silent": until it is deleted);
    #: how long until a maintenance begins ("announce-maintenance": 7 days), or the hosts are taken
    #: away ("preempt": 0).
    seconds: float | None = None
    #: The name of a google.rpc.Code ("error", "lost-answer").
    code: str = "UNAVAILABLE"
    #: The error's message.
    message: str = "The service is currently unavailable."
    #: Seconds in the error's RetryInfo ("error", "lost-answer").
    retry_after: float | None = None
    #: "line": the port of a proxy on the address of the node's first host, which the host then
    #: publishes as its SSH port.
    port: int = 0
    #: "slow-transfer".
    bytes_per_second: int = 2**20
    #: "cut-transfer": how much of a body may arrive.
    bytes: int = 0
    #: "state": what the node then says of itself; *description* is of its health.
    state: NodeState = "READY"
    health: NodeHealth = "HEALTHY"
    description: str = ""
    #: Set by the emulator.
    id: str = ""

    def __post_init__(self) -> None:
        if self.code not in _CODES_BY_NAME:
            raise ValueError(f"the code {self.code!r} is not one of {', '.join(_CODES_BY_NAME)}")
        if self.bytes_per_second <= 0:
            raise ValueError("bytes_per_second must be greater than 0")

    def error(self) -> ApiError:
        """What a call that it hits fails with."""
        return ApiError(_CODES_BY_NAME[self.code], self.message, retry_after=self.retry_after)


class Faults:
    """The faults that wait for calls."""

    def __init__(self) -> None:
        self._waiting: dict[str, Fault] = {}
        self._silences: dict[str, asyncio.Event] = {}  # set when the silence ends

    def add(self, fault: Fault) -> None:
        self._waiting[fault.id] = fault
        if fault.kind == "silent":
            self._silences[fault.id] = asyncio.Event()

    def list(self) -> list[Fault]:
        return list(self._waiting.values())

    def has(self, kind: FaultKind) -> bool:
        return any(fault.kind == kind for fault in self._waiting.values())

    def remove(self, id: str) -> bool:
        """Ends a fault; False if there is none of that *id*."""
        fault, silence = self._waiting.pop(id, None), self._silences.pop(id, None)
        if silence is not None:
            silence.set()
        return fault is not None or silence is not None

    def clear(self) -> None:
        for id in {*self._waiting, *self._silences}:
            self.remove(id)

    def consume(
        self,
        kind: FaultKind,
        zone: str,
        method: str | None = None,
        *,
        where: Callable[[Fault], bool] = lambda fault: True,
    ) -> Fault | None:
        """The fault of that kind which hits a call in *zone* now, used up once; or None."""
        for fault in self._waiting.values():
            if (
                fault.kind == kind
                and fault.zone in (None, zone)
                and fault.method in (None, method)
                and where(fault)
            ):
                if fault.count is not None:
                    fault.count -= 1
                    if fault.count <= 0:
                        del self._waiting[fault.id]
                return fault
        return None

    async def wait_silence(self, fault: Fault) -> None:
        """Returns when the silence of *fault* ends."""
        if (silence := self._silences.get(fault.id)) is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(fault.seconds):
                    await silence.wait()

    def unreachable_zones(self) -> set[str | None]:
        """None in it stands for all zones."""
        return {fault.zone for fault in self._waiting.values() if fault.kind == "unreachable"}

    def is_unlisted(self, zone: str, *names: str) -> bool:
        """Whether a list lacks the node with one of these names."""
        return bool(self.consume("unlisted", zone, where=lambda fault: fault.node in names))

    def proxy_port(self, *names: str) -> int:
        """The port of the last "line" fault of a node with one of these names; 0: there is none."""
        ports = [f.port for f in self._waiting.values() if f.kind == "line" and f.node in names]
        return ports[-1] if ports else 0
