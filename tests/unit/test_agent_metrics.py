"""libtpu's figures: read by a real gRPC peer's own encoding, and sampled as often as is wanted."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from ports import free_port

from jupyter_tpu.on_host.agent.daemon import load
from jupyter_tpu.on_host.agent.metrics import libtpu
from jupyter_tpu.on_host.agent.metrics.protobuf import decode

GIB = 2**30
#: Fields of the messages in tpu_info/proto that are used: name, number, and type; a capital letter
#: begins the name of a message, and "*" a repeated field.
MESSAGES = {
    "AttrValue": ["string_attr 1 string", "int_attr 3 int64", "kvlist_attr 6 KeyValueList"],
    "KeyValueList": ["attributes 1 *Attribute"],
    "Attribute": ["key 1 string", "value 2 AttrValue"],
    "Gauge": ["as_double 1 double", "as_int 2 int64"],
    "Metric": ["attribute 1 Attribute", "gauge 3 Gauge"],
    "TPUMetric": ["name 1 string", "description 2 string", "metrics 3 *Metric"],
    "MetricRequest": ["metric_name 1 string"],
    "MetricResponse": ["metric 1 TPUMetric"],
    "Core": ["global_core_id 1 int32", "chip_id 2 int32"],
    "Sequencer": ["sequencer_type 1 int32", "pc 3 int64", "hlo_location 8 string"],
    "CoreState": [
        "core_id 1 Core",
        "sequencer_info 2 *Sequencer",
        "launch_id 5 int32",
        "error_message 7 string",
    ],
    "StatusRequest": ["include_hlo_info 1 bool"],
    "CoreStateEntry": ["key 1 int32", "value 2 CoreState"],
    "StatusResponse": ["host_name 1 string", "core_states 2 *CoreStateEntry"],
}


def message_classes() -> dict[str, Any]:
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="metrics.proto", package="t", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            called, number, kind = field.split()
            made = message.field.add(name=called, number=int(number), label=1 + 2 * ("*" in kind))
            if (kind := kind.strip("*")) in MESSAGES:
                made.type, made.type_name = field_type.TYPE_MESSAGE, f".t.{kind}"
            else:
                made.type = field_type.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}"))
        for name in MESSAGES
    }


M = message_classes()


def of_device(device: int, **gauge: float) -> Any:
    return {"attribute": {"key": "device-id", "value": {"int_attr": device}}, "gauge": gauge}


def of_queue(device: Any, size: int, core: str) -> Any:
    """As newer libtpu reports it, with a text, and as older."""
    number = {"string_attr" if isinstance(device, str) else "int_attr": device}
    pairs = [
        {"key": "core_type", "value": {"string_attr": core}},
        {"key": "device_ordinal", "value": number},
    ]
    return {
        "attribute": {"key": "all", "value": {"kvlist_attr": {"attributes": pairs}}},
        "gauge": {"as_int": size},
    }


#: A v3 host with one of its two chips in use: two devices a chip.
METRICS = {
    libtpu.TOTAL: [of_device(device, as_int=16 * GIB) for device in (3, 1, 0, 2)],
    libtpu.USED: [
        of_device(0, as_int=3 * GIB),
        of_device(1, as_int=GIB),
        of_device(2),
        of_device(3),
    ],
    libtpu.DUTY: [of_device(1, as_double=0.0), of_device(0, as_double=87.65)],
    libtpu.QUEUE: [
        of_queue("0", 2, "tensor"),
        of_queue(1, 3, "tensor"),
        of_queue("0", 4, "sparse"),
    ],
}


class Service(grpc.GenericRpcHandler):
    """What libtpu serves, by gRPC's own server."""

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = dict(METRICS)
        self.status: Any = None

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        if not details.method.startswith(libtpu.SERVICE) or not hasattr(self, name):
            return None
        return grpc.unary_unary_rpc_method_handler(getattr(self, name))

    def GetRuntimeMetric(self, request: bytes, context: Any) -> bytes:
        name = M["MetricRequest"].FromString(request).metric_name
        if name not in self.metrics:
            context.abort(grpc.StatusCode.NOT_FOUND, "Not supported by this libtpu.")
        answer = {
            "metric": {"name": name, "description": "x" * 40_000, "metrics": self.metrics[name]}
        }
        return M["MetricResponse"](**answer).SerializeToString()

    def GetTpuRuntimeStatus(self, request: bytes, context: Any) -> bytes:
        if self.status is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Not in this libtpu.")
        answer = M["StatusResponse"](core_states=self.status)
        if not M["StatusRequest"].FromString(request).include_hlo_info:
            for entry in answer.core_states:
                for sequencer in entry.value.sequencer_info:
                    sequencer.hlo_location = ""
        return answer.SerializeToString()


@contextlib.contextmanager
def served(service: Service) -> Iterator[int]:
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, handlers=[service])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield port
        server.stop(None).wait()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    service = Service()
    with served(service) as port:
        monkeypatch.setenv(libtpu.METRICS_PORTS, f"{free_port()},{port}")
        yield service


async def test_each_chip_has_the_memory_of_its_devices_and_its_duty_cycle(service):
    figures, problem = await libtpu.read(2)
    assert problem == ""
    assert figures.chips == [[4 * GIB, 32 * GIB, 87.7], [0, 32 * GIB, 0.0]]
    assert (figures.queue, figures.errors) == (9, [])


async def test_what_this_libtpu_does_not_report_is_not_known(service):
    service.metrics = {libtpu.DUTY: METRICS[libtpu.DUTY]}
    figures, _ = await libtpu.read(2)
    assert figures.chips == [[None, None, 87.7], [None, None, 0.0]]
    assert figures.queue is None
    service.metrics = {}
    assert await libtpu.read(2) == (None, "libtpu reports no chips")


async def test_the_errors_of_cores_are_reported_once_each(service):
    states = [{"key": n, "value": {"error_message": text}} for n, text in enumerate(["", "x", "x"])]
    service.status = states
    figures, _ = await libtpu.read(2)
    assert figures.errors == ["x"]


async def test_the_hlo_operations_of_chips_are_those_of_their_cores(service):
    assert await libtpu.read_places() == [], "of a libtpu that has no such status"

    def core(chip: int, *places: str) -> Any:
        sequencers = [{"pc": 7, "hlo_location": place} for place in places]
        return {"core_id": {"chip_id": chip}, "sequencer_info": sequencers}

    cores = [core(1, "fusion.3"), core(0, "all-reduce.7", ""), core(0, "copy.1"), core(2, "")]
    service.status = [{"key": number, "value": core} for number, core in enumerate(cores)]
    assert await libtpu.read_places() == [(0, "all-reduce.7, copy.1"), (1, "fusion.3")]


async def test_of_several_processes_each_reports_its_own_devices(service, monkeypatch):
    other = Service()
    other.metrics = {
        libtpu.TOTAL: METRICS[libtpu.TOTAL],
        libtpu.USED: [of_device(n, as_int=n * GIB) for n in range(4)],
        libtpu.DUTY: [of_device(0, as_double=0.0), of_device(1, as_double=50.0)],
    }
    with served(other) as port:
        monkeypatch.setenv(libtpu.METRICS_PORTS, f"{libtpu._ports()[1]},{port}")
        figures, _ = await libtpu.read(2)
    assert figures.chips == [[4 * GIB, 32 * GIB, 87.7], [5 * GIB, 32 * GIB, 50.0]]


async def test_kernels_with_a_chip_each_report_on_ports_of_their_own(monkeypatch):
    """Also where each numbers its devices from 0 on. The last one's port has another program."""
    first, second, other = Service(), Service(), Service()
    for own, used in ((first, 1), (second, 2)):
        own.metrics = {
            libtpu.USED: [of_device(0, as_int=used * GIB)],
            libtpu.DUTY: [of_device(0, as_double=10.0 * used)],
            libtpu.QUEUE: [of_queue(0, used, "tensor")],
        }
    other.metrics = {libtpu.USED: [of_device(n, as_int=9 * GIB) for n in range(4)]}
    with served(first) as one, served(second) as two, served(other) as three:
        ports = {(0,): one, (2,): two, (3,): three}
        monkeypatch.setenv(libtpu.METRICS_PORTS, str(free_port()))
        monkeypatch.setattr(libtpu, "metrics_port", lambda chosen: ports[tuple(chosen)])
        figures, _ = await libtpu.read(4, [[0], [2]])
        unused = [None, None, None]
        assert figures.chips == [[GIB, None, 10.0], unused, [2 * GIB, None, 20.0], unused]
        assert (figures.queue, figures.programs) == (3, 2)
        figures, _ = await libtpu.read(4, [[0], [2], [3]])
        assert [row[0] for row in figures.chips] == [GIB, 9 * GIB, 2 * GIB, 9 * GIB]


async def test_programs_that_use_the_chips_without_figures_are_counted(service, chips, monkeypatch):
    held = [{"pid": pid, "devices": ["/dev/accel0"]} for pid in (os.getppid(), os.getpid())]
    monkeypatch.setattr(load, "holders", lambda: held)
    assert "silent" not in await load.read_sample([]), "a program and its child are one"
    monkeypatch.setattr(load, "descendants", lambda pid: [])
    assert (await load.read_sample([]))["silent"] == 1


@pytest.fixture
def chips(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each core of a chip has a file: these are two chips, not four.
    files = [{"/dev/vfio/0", "/dev/vfio/1"}, {"/dev/vfio/2", "/dev/vfio/3"}]
    monkeypatch.setattr(load, "devices_by_chip", lambda: files)


async def no_kernels() -> list[dict[str, Any]]:
    return []


async def test_what_listens_on_the_port_without_speaking_grpc_is_named(monkeypatch, chips):
    monkeypatch.setattr(load, "READ_SECONDS", 0.3)
    said = b"HTTP/1.1 400 Bad Request\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv(libtpu.METRICS_PORTS, str(port))
        sample = await load.read_sample([])
        why = f"port {port}: it does not speak HTTP/2"
        assert sample == {"state": "unreadable", "why": why, "of": 2}
        said = b""
        assert (await load.read_sample([]))["why"] == "no answer for 0 s"


async def test_a_host_without_chips_and_one_whose_chips_nobody_uses_are_told_apart(
    monkeypatch, chips
):
    monkeypatch.setenv(libtpu.METRICS_PORTS, str(free_port()))
    assert await load.read_sample([]) == {"state": "idle", "of": 2}
    monkeypatch.setattr(load, "devices_by_chip", list)
    assert await load.read_sample([]) == {"state": "no_device"}


async def test_chips_are_idle_on_a_host_whose_localhost_has_two_addresses(monkeypatch, chips):
    def both(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in ("127.0.0.1", "127.0.0.2")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    monkeypatch.setenv("TPU_RUNTIME_METRICS_PORTS", str(free_port()))
    assert await load.read_sample([]) == {"state": "idle", "of": 2}


async def test_samples_are_taken_when_they_are_due_and_each_client_gets_those_it_has_not(
    service, chips
):
    taken = asyncio.Event()
    samples = load.LoadSampler(taken.set, no_kernels)
    assert samples.sample(60.0) == 60.0
    await taken.wait()
    assert 59 < samples.sample(60.0) <= 60  # nothing is due
    [first] = samples.since(0)
    assert (first["number"], first["state"], len(first["chips"])) == (1, "ok", 2)
    assert samples.since(1) == []
    [second] = await samples.latest()  # somebody looks
    assert second["number"] == 2
    assert [sample["number"] for sample in samples.since(1)] == [2]
    assert [sample["number"] for sample in samples.since(77)] == [1, 2]  # of another daemon
    await samples.close()


@pytest.mark.parametrize("data", [b"\x0a\x05ab", b"\x0a", b"\x80", b"\x0b\x01"])
def test_bytes_that_are_no_message_are_refused(data):
    with pytest.raises(ValueError, match=r"cut off|unknown type"):
        decode(data)
