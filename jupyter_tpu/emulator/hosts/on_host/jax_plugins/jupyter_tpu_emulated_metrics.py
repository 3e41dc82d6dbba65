"""libtpu's service of metrics, in a process of an emulated host that uses JAX.

JAX loads this as a plugin when it starts, since the folder above is in the Python path of emulated
hosts. A thread then serves the same calls as libtpu, with figures of the simulated devices: the
bytes of live arrays, and as duty cycle the processor time of this process, which is not known by
device. It ends with the process, which until then holds the files of its chips open, as with
libtpu. Standard library only, Python 3.8 or newer.

Sources: RFC 9113, RFC 7541; tpu_info/proto of AI-Hypercomputer/cloud-accelerator-diagnostics.
"""

import functools
import glob
import os
import socketserver
import stat
import struct
import sys
import threading
import time

METRIC_PATH = b"/tpu.monitoring.runtime.RuntimeMetricService/GetRuntimeMetric"
STATUS_PATH = b"/tpu.monitoring.runtime.RuntimeMetricService/GetTpuRuntimeStatus"
#: The HLO operation that each chip is at. Simulated devices have none: a test's program sets them.
places: "dict[int, str]" = {}
TOTAL = "tpu.runtime.hbm.memory.total.bytes"
USED = "tpu.runtime.hbm.memory.usage.bytes"
DUTY = "tpu.runtime.tensorcore.dutycycle.percent"
#: The first free one of these ports is used, unless TPU_RUNTIME_METRICS_PORTS has others.
PORTS = "8431,8432,8433,8434,8435,8436,8437,8438"
#: Seconds of processor time that a duty cycle is made from, at least.
DUTY_WINDOW_SECONDS = 0.5

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITY = 0x4, 0x8, 0x20
#: Entries of HPACK's static table, and the names of those that have a path.
STATIC, PATH_NAMES = 61, (4, 5)
UNIMPLEMENTED = 12
#: GetTpuRuntimeStatusRequest.include_hlo_info
INCLUDE_HLO = b"\x08\x01"


def initialize():
    """Called by JAX. Without a free port there are no figures, as with libtpu."""
    hold_chips()
    address = os.environ.get("JUPYTER_TPU_METRICS_ADDRESS")
    if not address:
        return
    figures = EmulatedFigures()
    ports = os.environ.get("TPU_RUNTIME_METRICS_PORTS") or PORTS
    for port in map(int, ports.split(",")):
        try:
            server = MetricsServer((address, port), figures)
        except OSError:
            continue
        threading.Thread(target=server.serve_forever, name="emulated metrics", daemon=True).start()
        return


def hold_chips():
    """Opens the files that stand for this process's chips, until it ends."""
    chosen = os.environ.get("TPU_VISIBLE_CHIPS")
    if chosen == "":
        return  # started without chips
    files = sorted(
        glob.glob("/dev/accel[0-9]*") + glob.glob("/dev/vfio/[0-9]*"),
        key=lambda path: int("".join(filter(str.isdigit, path))),
    )
    if chosen:
        files = [files[number] for number in map(int, chosen.split(",")) if number < len(files)]
    for path in files:
        if stat.S_ISREG(os.stat(path).st_mode):  # not a chip of the machine that emulates
            os.open(path, os.O_RDWR)


class EmulatedFigures:
    """Figures of this process."""

    def __init__(self):
        self._lock = threading.Lock()
        self._last = time.monotonic(), time.process_time()
        self._duty = 0.0

    def metric(self, name):
        """The values of a metric by device or chip; None if there is no such metric."""
        memory = self._memory()
        if name == USED:
            return memory
        if name == TOTAL:
            total = int(os.environ.get("JUPYTER_TPU_EMULATED_HBM", "0"))
            return dict.fromkeys(memory, total)
        if name == DUTY:
            cores = int(os.environ.get("JUPYTER_TPU_EMULATED_CORES", "1"))
            return dict.fromkeys(range(len(memory) // cores), self._duty_cycle())
        return None

    def _memory(self):
        """The bytes of live arrays by device, once JAX has started its backends."""
        if not getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None):
            return {}
        jax = sys.modules["jax"]
        memory = {device.id: 0 for device in jax.local_devices()}
        for array in jax.live_arrays():
            try:
                shape = array.sharding.shard_shape(array.shape)
                devices = array.sharding.addressable_devices
                size = array.dtype.itemsize
            except Exception:  # deleted meanwhile, or of a kind without a size
                continue
            for length in shape:
                size *= length
            for device in devices:
                memory[device.id] = memory.get(device.id, 0) + size
        return memory

    def _duty_cycle(self):
        """Percent of the time since the last question in which a processor was busy."""
        with self._lock:
            now = time.monotonic(), time.process_time()
            passed = now[0] - self._last[0]
            if passed >= DUTY_WINDOW_SECONDS:
                self._duty = min(100.0, 100.0 * (now[1] - self._last[1]) / passed)
                self._last = now
            return self._duty


class MetricsServer(socketserver.ThreadingTCPServer):
    """Serves *figures* over gRPC, each connection in a thread."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address, figures):
        super().__init__(address, functools.partial(MetricsHandler, figures))

    def handle_error(self, request, client_address):
        """Says nothing: what a client sends is not the user's business."""


class MetricsHandler(socketserver.StreamRequestHandler):
    """One HTTP/2 connection."""

    def __init__(self, figures, *where):
        self._figures = figures
        super().__init__(*where)

    def handle(self):
        if self.rfile.read(len(PREFACE)) != PREFACE:
            return
        self._send(SETTINGS, 0, 0, b"")
        headers, paths, bodies = Headers(), {}, {}
        while True:
            head = self.rfile.read(9)
            if len(head) < 9:
                return
            kind, flags = head[3], head[4]
            stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
            content = self.rfile.read(int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not flags & ACK:
                self._send(SETTINGS, ACK, 0, b"")
            elif kind == PING and not flags & ACK:
                self._send(PING, ACK, 0, content)
            elif kind == HEADERS:
                content = unpadded(flags, content)
                paths[stream] = headers.path(content[5:] if flags & PRIORITY else content)
                bodies[stream] = b""
            elif kind == DATA and stream in bodies:
                bodies[stream] += unpadded(flags, content)
            elif kind == GOAWAY:
                return
            if kind in (HEADERS, DATA) and flags & END_STREAM and stream in bodies:
                self._answer(stream, paths.pop(stream), bodies.pop(stream))

    def _answer(self, stream, path, body):
        message = None
        if path == METRIC_PATH:
            name = text_field(body[5:], 1)
            values = self._figures.metric(name)
            message = None if values is None else response(name, values)
        elif path == STATUS_PATH and body[5:] == INCLUDE_HLO:
            message = b"".join(core_state(chip, name) for chip, name in places.items())
        kind = literal(b"content-type", b"application/grpc")
        if message is None:
            status = literal(b"grpc-status", b"%d" % UNIMPLEMENTED)
            self._send(HEADERS, END_HEADERS | END_STREAM, stream, b"\x88" + kind + status)
            return
        self._send(HEADERS, END_HEADERS, stream, b"\x88" + kind)
        self._send(DATA, 0, stream, b"\0" + len(message).to_bytes(4, "big") + message)
        status = literal(b"grpc-status", b"0")
        self._send(HEADERS, END_HEADERS | END_STREAM, stream, status)

    def _send(self, kind, flags, stream, content):
        head = len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
        self.wfile.write(head + content)


class Headers:
    """Reads the paths of requests. gRPC clients send them without Huffman's code."""

    def __init__(self):
        self._table = []  # (is a path, value), the newest first

    def path(self, block):
        """The path in a block of headers; b"" if it can't be read."""
        path, position = b"", 0
        while position < len(block):
            byte = block[position]
            if byte & 0x80:
                index, position = number(block, position, 7)
                is_path, value = self._entry(index)
            elif byte & 0xE0 == 0x20:  # another size of the table
                _, position = number(block, position, 5)
                continue
            else:
                kept = byte & 0x40
                index, position = number(block, position, 6 if kept else 4)
                if index:
                    is_path = self._entry(index)[0]
                else:
                    name, position = string(block, position)
                    is_path = name == b":path"
                value, position = string(block, position)
                if kept:
                    self._table.insert(0, (is_path, value))
            if is_path:
                path = value
        return path

    def _entry(self, index):
        if index <= STATIC:
            return index in PATH_NAMES, b""
        return self._table[index - STATIC - 1]


def number(block, position, bits):
    """HPACK's integer with a prefix of so many bits, and where it ends."""
    full = (1 << bits) - 1
    value, position, shift = block[position] & full, position + 1, 0
    if value == full:
        while True:
            byte, position = block[position], position + 1
            value += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
    return value, position


def string(block, position):
    """HPACK's string, b"" for one in Huffman's code, and where it ends."""
    coded = block[position] & 0x80
    length, position = number(block, position, 7)
    end = position + length
    return b"" if coded else bytes(block[position:end]), end


def literal(name, value):
    """A header that no table has."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def unpadded(flags, content):
    return content[1 : len(content) - content[0]] if flags & PADDED and content else content


def text_field(message, field_number):
    """The text of a field of a protobuf message that has texts and numbers only; "" if none."""
    position = 0
    while position < len(message):
        key, position = varint(message, position)
        size, position = varint(message, position)
        if key & 7 == 2:
            if key >> 3 == field_number:
                return message[position : position + size].decode("utf-8", "replace")
            position += size
    return ""


def response(name, values):
    """MetricResponse: the TPUMetric, whose gauges have the device as an attribute."""
    metrics = b"".join(
        field(3, field(1, field(1, b"device-id") + field(2, tag(3, 0) + encoded(device)))
              + field(3, gauge(value)))
        for device, value in values.items()
    )  # fmt: skip
    return field(1, field(1, name.encode()) + metrics)


def core_state(chip, name):
    """An entry of GetTpuRuntimeStatusResponse.core_states: a core, and the place of its program."""
    identity = field(1, tag(1, 0) + encoded(chip) + tag(2, 0) + encoded(chip))
    sequencer = field(2, field(8, name.encode()))
    return field(2, tag(1, 0) + encoded(chip) + field(2, identity + sequencer))


def gauge(value):
    if isinstance(value, float):
        return tag(1, 1) + struct.pack("<d", value)
    return tag(2, 0) + encoded(value)


def field(number, content):
    return tag(number, 2) + encoded(len(content)) + content


def tag(number, kind):
    return encoded(number << 3 | kind)


def encoded(value):
    """A varint."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(data) + bytes([value])


def varint(message, position):
    value = shift = 0
    while True:
        byte, position = message[position], position + 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
