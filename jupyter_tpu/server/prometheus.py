"""Memory and load of chips as Prometheus reads them: ``GET metrics/prometheus``.

Source of the format: prometheus.io/docs/instrumenting/exposition_formats.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jupyter_server.auth.decorator import authorized
from tornado import web

from ..errors import TPUError
from .fleet_handle import FleetHandle
from .handlers import Handler

if TYPE_CHECKING:
    from ..fleet.models import LoadSample, TPULoad

#: Seconds after which a figure is left out: its host has not answered since.
STALE_SECONDS = 180.0

_HELP = {
    "tpu_hbm_used_bytes": "HBM of the chip that is in use.",
    "tpu_hbm_total_bytes": "HBM of the chip that programs can use.",
    "tpu_duty_cycle_percent": "Part of the time in which the cores of the chip were busy.",
    "tpu_queued_programs": "Programs that wait to run on the chips of the host.",
    "tpu_host_in_use": "1: a process uses the chips of the host. 0: none does.",
}


def exposition(loads: Sequence[TPULoad], now: float) -> str:
    """The latest figures of each host, unless they are old. *now*: seconds since the epoch."""
    lines = []
    figures = [figure for load in loads for figure in _figures(load, now)]
    for name, about in _HELP.items():
        values = [(labels, value) for metric, labels, value in figures if metric == name]
        if values:
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
            lines += [f"{name}{{{labels}}} {value:.15g}" for labels, value in values]
    return "".join(f"{line}\n" for line in lines)


def _figures(load: TPULoad, now: float) -> Iterator[tuple[str, str, float]]:
    """Each metric's name, its labels, and its value."""
    emulated = ',emulated="true"' if load.emulated else ""
    of_tpu = f'tpu="{_escaped(load.tpu)}",zone="{_escaped(load.zone)}"{emulated}'
    for host in load.hosts:
        if not host.samples or now - host.samples[-1].time > STALE_SECONDS:
            continue
        sample = host.samples[-1]
        of_host = f'{of_tpu},host="{host.host}"'
        if sample.state in ("ok", "idle", "no_port"):
            yield "tpu_host_in_use", of_host, sample.state != "idle"
        if sample.queue is not None:
            yield "tpu_queued_programs", of_host, sample.queue
        yield from _chips(sample, of_host)


def _chips(sample: LoadSample, of_host: str) -> Iterator[tuple[str, str, float]]:
    for number, chip in enumerate(sample.chips):
        for name, value in (
            ("tpu_hbm_used_bytes", chip.memory_used),
            ("tpu_hbm_total_bytes", chip.memory_total),
            ("tpu_duty_cycle_percent", chip.duty_cycle),
        ):
            if value is not None:
                yield name, f'{of_host},chip="{number}"', value


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class PrometheusHandler(Handler):
    """A scrape does not count as a look: hosts are sampled once a minute for it."""

    def initialize(self, fleet: FleetHandle) -> None:
        self._fleet = fleet

    @web.authenticated
    @authorized
    async def get(self) -> None:
        try:
            loads = await self._fleet.call("metrics.list")
        except TPUError as error:
            self.write_problem(error)
            return
        self.finish(exposition(loads, time.time()), set_content_type="text/plain; version=0.0.4")
