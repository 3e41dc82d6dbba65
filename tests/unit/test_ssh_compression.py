"""Whether a tunnel's bytes are worth compressing."""

import os

import pytest

from jupyter_tpu.ssh.compression import ENOUGH_BYTES, VALID_SECONDS, CompressionPolicy

TEXT = b"step 1200 loss 0.3141 accuracy 0.92 learning rate 0.001\n" * 600
NOISE = os.urandom(len(TEXT))


class Tunnel:
    """What passes through one, on a clock of its own."""

    def __init__(self) -> None:
        self.policy = CompressionPolicy()
        self.now = 1000.0  # seconds

    def transfer(self, data: bytes, rate: float, *, compressed: bool = False) -> bool:
        """Passes *data* again and again at *rate* bytes per second; returns the verdict."""
        for _ in range(2 * ENOUGH_BYTES // len(data) + 1):
            self.now += len(data) / rate
            self.policy.record(data, self.now, compressed=compressed)
        return self.policy.should_compress(self.now)


@pytest.mark.parametrize(
    ("data", "rate", "verdict"),
    [(TEXT, 1e6, True), (NOISE, 1e6, False), (TEXT, 5e6, False), (TEXT, 300e6, False)],
)
def test_what_shrinks_is_compressed_on_a_slow_line_and_nothing_else(data, rate, verdict):
    assert Tunnel().transfer(data, rate) is verdict


def test_little_says_nothing_about_the_line():
    tunnel = Tunnel()
    for _ in range(100):  # a second apart
        tunnel.now += 1
        tunnel.policy.record(TEXT, tunnel.now, compressed=False)
    assert not tunnel.policy.should_compress(tunnel.now)


def test_it_is_given_up_when_the_line_is_seen_to_be_fast():
    tunnel = Tunnel()
    assert tunnel.transfer(TEXT, 1e6)
    assert not tunnel.transfer(TEXT, 20e6)


def test_a_burst_after_a_pause_of_this_machine_does_not_end_it():
    tunnel = Tunnel()
    assert tunnel.transfer(TEXT, 1e6)
    for _ in range(ENOUGH_BYTES // len(TEXT) + 1):
        tunnel.policy.record(TEXT, tunnel.now + 1, compressed=False)
    assert tunnel.policy.should_compress(tunnel.now + 1)


def test_what_is_compressed_tells_whether_it_shrinks_and_nothing_about_the_line():
    tunnel = Tunnel()
    assert tunnel.transfer(TEXT, 1e6)
    assert tunnel.transfer(TEXT, 20e6, compressed=True)
    assert not tunnel.transfer(NOISE, 1e6, compressed=True)
    assert not tunnel.transfer(TEXT, 1e6, compressed=True)


def test_the_line_is_looked_at_again_from_time_to_time():
    tunnel = Tunnel()
    assert tunnel.transfer(TEXT, 1e6)
    tunnel.now += VALID_SECONDS
    assert not tunnel.policy.should_compress(tunnel.now)
