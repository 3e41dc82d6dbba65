"""The proxy that tests put before a host does to a line what it says."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from fault_proxy import FaultProxy


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends everything back."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(side: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := side.recv(1 << 16):
                side.sendall(data)
        side.close()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                side, _ = listener.accept()
                threading.Thread(target=answer, args=(side,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


@pytest.fixture
def proxy(echo: int) -> Iterator[FaultProxy]:
    with FaultProxy("127.0.0.1", echo) as made:
        yield made


def connect(proxy: FaultProxy, timeout: float = 20.0) -> socket.socket:
    return socket.create_connection((proxy.address, proxy.port), timeout)


def round_trip(side: socket.socket, data: bytes) -> float:
    """Seconds until *data* is back, whole and in order."""
    begun, back = time.monotonic(), bytearray()
    sender = threading.Thread(target=side.sendall, args=(data,), daemon=True)
    sender.start()
    while len(back) < len(data):
        back += side.recv(1 << 16)
    sender.join()
    assert back == data
    return time.monotonic() - begun


def is_silent(side: socket.socket) -> bool:
    side.settimeout(0.2)
    try:
        return side.recv(1) is None
    except TimeoutError:
        return True
    finally:
        side.settimeout(20)


def test_everything_comes_through_and_is_counted(proxy):
    with connect(proxy) as side:
        round_trip(side, bytes(range(256)) * 20_000)
        assert proxy.count() == (5_120_000, 5_120_000)
        side.shutdown(socket.SHUT_WR)
        assert side.recv(1) == b"", "the end is carried, too"
    assert proxy.count() == (0, 0)


def test_a_delay_and_a_rate_take_at_least_their_time(proxy):
    with connect(proxy) as side:
        proxy.delay = 0.1
        assert round_trip(side, b"x") >= 0.2
        proxy.delay, proxy.rate = 0.0, 200_000
        assert round_trip(side, bytes(100_000)) >= 0.5


def test_what_a_lossy_line_loses_comes_late_and_in_order(proxy):
    proxy.loss = 1.0
    with connect(proxy) as side:
        assert round_trip(side, b"x") >= 0.4
        proxy.loss, proxy.rate = 0.05, 1_000_000
        round_trip(side, bytes(range(256)) * 1000)


def test_a_cut_resets_flows_and_refuses_new_ones_until_it_is_mended(proxy):
    with connect(proxy) as side:
        round_trip(side, b"x")
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            side.recv(1)
    with pytest.raises(ConnectionResetError), connect(proxy) as side:  # as early as that
        side.recv(1)
    proxy.mend()
    with connect(proxy) as side:
        round_trip(side, b"x")


def test_a_hole_carries_nothing_until_it_is_mended_and_then_everything(proxy):
    with connect(proxy) as old:
        round_trip(old, b"x")
        proxy.hole()
        with connect(proxy) as new:
            for side in (old, new):
                side.sendall(b"later")
                assert is_silent(side)
            proxy.mend()
            assert [old.recv(5), new.recv(5)] == [b"later", b"later"]


def test_a_dead_flow_stays_silent_and_new_ones_work(proxy):
    with connect(proxy) as old:
        round_trip(old, b"x")
        proxy.dead()
        old.sendall(b"for nobody")
        assert is_silent(old)
        proxy.mend()
        with connect(proxy) as new:
            round_trip(new, b"x")
        assert is_silent(old)
