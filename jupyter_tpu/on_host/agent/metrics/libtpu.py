"""libtpu's figures of the chips of this host.

The process that has loaded libtpu serves them on the first port of TPU_RUNTIME_METRICS_PORTS that
is free, 8431 usually: without such a process nothing listens there. Memory is reported per device
of JAX (two a chip on v2 and v3), and the duty cycle per chip. Several processes that share a host
each listen on a port; where they report the same device, the larger figure counts, since each may
know only of its own work. A kernel with chips of its own has a port of its own, so that its figures
are those of its chips, whether libtpu numbers its devices from 0 on or not. No one has tried that
for us on hardware.

Source: AI-Hypercomputer/cloud-accelerator-diagnostics, tpu_info/proto and tpu_info/metrics.py.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..protocol.chosen_chips import METRICS_PORT, METRICS_PORTS, metrics_port
from .grpc_calls import NotGRPC, call
from .protobuf import (
    Fields,
    decode,
    double,
    encode,
    encode_number,
    integer,
    message,
    messages,
    text,
)

SERVICE = "/tpu.monitoring.runtime.RuntimeMetricService/"
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
USED = "tpu.runtime.hbm.memory.usage.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
QUEUE = "hlo.queue.size.gauge"
#: Where the service is: set on emulated hosts, which share the machine's loopback addresses.
ADDRESS = "JUPYTER_TPU_METRICS_ADDRESS"
#: Characters of the operations of a chip that are told.
PLACE_CHARACTERS = 200
_DEFAULT_PORTS = range(METRICS_PORT, METRICS_PORT + 8)
METRICS = (TOTAL, USED, DUTY, QUEUE)

#: The values of one metric by device.
_Values = Dict[int, float]


class Figures(NamedTuple):
    """chips: for each ``[memory used, memory in all, duty cycle]``, in bytes and percent, each None
    where libtpu does not say it. queue: the programs that wait, over all chips; errors: what
    libtpu says is wrong with a core. programs: how many processes report these figures.
    """

    chips: List[List[Any]]
    queue: Optional[int]
    errors: List[str]
    programs: int


async def read(chips: int, booked: Sequence[Sequence[int]] = ()) -> "Tuple[Optional[Figures], str]":
    """The figures of a host with so many *chips*, and "" or why there are none.

    booked: the chips of each kernel that has some of its own. None and "": no process serves
    figures.
    """
    owners = {metrics_port(own): own for own in booked}
    apart: Dict[int, Dict[str, _Values]] = {}  # by port
    by_name: Dict[str, _Values] = {}
    errors: List[str] = []
    answers, problem = 0, ""
    for port in sorted({*_ports(), *owners}):
        try:
            values, wrong = await _read_port(port)
        except ConnectionRefusedError:
            continue
        except (OSError, NotGRPC, ValueError) as error:
            problem = problem or "port %d: %s" % (port, error)
            continue
        answers += 1
        errors += [line for line in wrong if line not in errors]
        # With more chips than the kernel has, they are those of another program on its port.
        if port in owners and len(_by_chip(values, len(owners[port]))) <= len(owners[port]):
            apart[port] = values
            continue
        for name, by_device in values.items():
            known = by_name.setdefault(name, {})
            for device, value in by_device.items():
                known[device] = max(value, known.get(device, value))
    if not answers:
        return None, problem
    if not any(
        metrics.get(name) for metrics in (by_name, *apart.values()) for name in (TOTAL, USED, DUTY)
    ):
        return None, problem or "libtpu reports no chips"
    rows = _by_chip(by_name, chips)
    if owners:
        rows += [[None, None, None] for _ in range(chips - len(rows))]
        for port, values in apart.items():
            for chip, row in zip(owners[port], _by_chip(values, len(owners[port]))):
                rows[chip] = row
    queue = [metrics[QUEUE] for metrics in (by_name, *apart.values()) if metrics.get(QUEUE)]
    return Figures(rows, sum(map(_sum, queue)) if queue else None, errors, answers), ""


async def read_places() -> "List[Tuple[int, str]]":
    """The HLO operations that chips are at, such as "all-reduce.7", by the chips' numbers; without
    chips for which libtpu names none. [] if nothing answers. Nobody has tried it on hardware.

    SequencerInfo.hlo_location (8) is only filled on request, because finding it takes time there.
    """
    places: Dict[int, Set[str]] = {}
    request = SERVICE + "GetTpuRuntimeStatus", encode_number(1, 1)
    for port in _ports():
        with contextlib.suppress(OSError, NotGRPC, ValueError):
            [answer] = await call(os.environ.get(ADDRESS, "127.0.0.1"), port, [request])
            for entry in messages(decode(answer or b""), 2):
                state = message(entry, 2)
                names = {text(sequencer, 8) for sequencer in messages(state, 2)} - {""}
                if names:
                    chip = integer(message(state, 1), 2)
                    places.setdefault(chip, set()).update(names)
    return [
        (chip, ", ".join(sorted(names))[:PLACE_CHARACTERS])
        for chip, names in sorted(places.items())
    ]


def _ports() -> List[int]:
    words = os.environ.get(METRICS_PORTS, "").split(",")
    return [int(word) for word in words if word.strip().isdecimal()] or list(_DEFAULT_PORTS)


async def _read_port(port: int) -> "Tuple[Dict[str, _Values], List[str]]":
    """Raises what `call` raises, and ValueError for an answer that can't be read."""
    metric = SERVICE + "GetRuntimeMetric"
    requests = [(metric, encode(1, name.encode())) for name in METRICS]
    requests.append((SERVICE + "GetTpuRuntimeStatus", b""))
    # A name could have several addresses: connecting then fails with an error of another kind.
    address = os.environ.get(ADDRESS, "127.0.0.1")
    *answers, status = await call(address, port, requests)
    values = {
        name: _values(decode(answer))
        for name, answer in zip(METRICS, answers)
        if answer is not None
    }
    return values, [] if status is None else _errors(decode(status))


def _values(response: Fields) -> _Values:
    """MetricResponse.metric.metrics: each value by its device."""
    by_device: _Values = {}
    for metric in messages(message(response, 1), 3):
        gauge = message(metric, 3)
        value = double(gauge, 1) if 1 in gauge else float(integer(gauge, 2))
        device = _device(message(message(metric, 1), 2))
        # A device may have several queues, one for each kind of core.
        by_device[device] = by_device.get(device, 0.0) + value
    return by_device


def _device(attribute: Fields) -> int:
    """The number of a device: the attribute itself, or the one of it that has the right name."""
    for field in messages(message(attribute, 6), 1):
        if text(field, 1) == "device_ordinal":
            value = message(field, 2)
            return int(text(value, 1) or integer(value, 3))
    return integer(attribute, 3)


def _errors(response: Fields) -> List[str]:
    """GetTpuRuntimeStatusResponse.core_states: the messages of cores with an error."""
    states = (message(entry, 2) for entry in messages(response, 2))
    return sorted({text(state, 7) for state in states} - {""})


def _by_chip(by_name: Dict[str, _Values], chips: int) -> List[List[Any]]:
    """libtpu numbers devices as JAX does, so those of one chip follow each other."""
    duty = _ordered(by_name.get(DUTY))
    total, used = _ordered(by_name.get(TOTAL)), _ordered(by_name.get(USED))
    devices = max(len(total), len(used), len(duty))
    if not devices:
        return []
    # A process that uses only some of the chips reports only those.
    count = len(duty) or (devices // 2 if devices == 2 * chips else devices)
    per_chip = max(1, devices // count)
    return [
        [_part(used, chip, per_chip), _part(total, chip, per_chip), _percent(duty, chip)]
        for chip in range(count)
    ]


def _ordered(values: Optional[_Values]) -> List[float]:
    return [value for _, value in sorted((values or {}).items())]


def _part(values: List[float], chip: int, size: int) -> Optional[int]:
    part = values[chip * size : (chip + 1) * size]
    return int(sum(part)) if part else None


def _percent(values: List[float], chip: int) -> Optional[float]:
    return round(values[chip], 1) if chip < len(values) else None


def _sum(values: _Values) -> int:
    return int(sum(values.values()))
