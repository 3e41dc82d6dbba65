"""Whether JAX is really on the TPU: each cause of a fallback to the CPU is named."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from refusals import raises

from jupyter_tpu.environment.models import ExpectedHardware
from jupyter_tpu.environment.usability import require_usable
from jupyter_tpu.environment.verification import HostCheck
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.on_host.agent.protocol.chips import chips
from jupyter_tpu.on_host.chips.holders import hardware

Host = Callable[..., HostCheck]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """``host(**found)``: a host with four chips (below tmp_path) whose JAX found that."""
    for number in range(4):
        add_chip(tmp_path, f"0000:00:0{number}.0", "0x0063")
        (tmp_path / "dev/vfio").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"dev/vfio/{number}").touch()
    (tmp_path / "dev/vfio/vfio").touch()
    (tmp_path / "proc").mkdir()
    (tmp_path / "tmp").mkdir()
    for name in ("JAX_PLATFORMS", "TPU_LIBRARY_PATH", "JUPYTER_TPU_EMULATED"):
        monkeypatch.delenv(name, raising=False)

    def check(**facts: Any) -> HostCheck:
        normal = {
            "jax": "0.10.2",
            "packages": {"jax": "0.10.2", "libtpu": "0.0.42"},
            "platform": "cpu",
            "devices": 1,
            "hardware": hardware(str(tmp_path)),
        }
        return msgspec.convert({**normal, **facts}, HostCheck)

    return check


def add_chip(root: Path, address: str, device: str, subsystem: str = "0x0000") -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, value in {
        "vendor": "0x1ae0",
        "device": device,
        "subsystem_device": subsystem,
    }.items():
        (folder / name).write_text(value + "\n")


def refusal(check: HostCheck) -> TPUError:
    with raises(Reason.CPU_FALLBACK) as error:
        require_usable([check], ExpectedHardware(emulated=False, devices_per_host=4), print)
    assert error.value.message.startswith("JAX on host 0 does not use the TPU: ")
    assert error.value.hint
    return error.value


def test_a_host_whose_jax_is_on_all_its_chips_is_usable(host):
    log: list[str] = []
    good = host(platform="tpu", devices=4)
    assert good.hardware.chips == ["v5e"] * 4
    require_usable([good], ExpectedHardware(emulated=False, devices_per_host=4), log.append)
    assert log == ["host 0: Python , JAX 0.10.2, 4 tpu devices"]


def test_another_number_of_devices_than_the_type_has_is_refused(host):
    expected = ExpectedHardware(emulated=True, devices_per_host=8)
    message = "JAX sees 4 devices on host 0; this type has 8"
    with pytest.raises(TPUError, match=message):
        require_usable([host(devices=4)], expected, print)


def test_a_missing_libtpu_is_named(host):
    error = refusal(host(packages={"jax": "0.10.2"}))
    assert "libtpu is not installed" in error.message
    assert "jax[tpu]==0.10.2" in error.hint


def test_a_version_pair_that_does_not_fit_is_named(host):
    error = refusal(
        host(
            packages={"libtpu": "0.0.11"},
            libtpu_wanted="==0.0.42.*",
            libtpu_fits=False,
            backend_error="INTERNAL: Unexpected PJRT_Plugin size",
        )
    )
    assert "JAX 0.10.2 needs libtpu==0.0.42.*, but 0.0.11 is installed" in error.message


def test_an_image_without_a_tpu_driver_is_named(host, tmp_path):
    for number in range(4):
        (tmp_path / f"dev/vfio/{number}").unlink()
    error = refusal(host())
    assert "4 chips have no device files, because the runtime version" in error.message
    assert "default runtime version" in error.hint


def test_a_host_without_chips_is_named(host):
    assert "the host has no TPU chips" in refusal(host(hardware={})).message


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("JAX_PLATFORMS", "cpu", "the host sets JAX_PLATFORMS=cpu"),
        ("TPU_LIBRARY_PATH", "/gone/libtpu.so", "TPU_LIBRARY_PATH to /gone/libtpu.so, which does"),
    ],
)
def test_a_variable_of_the_login_that_keeps_jax_from_the_tpu_is_named(
    host, monkeypatch, name, value, cause
):
    monkeypatch.setenv(name, value)
    error = refusal(host())
    assert cause in error.message
    assert name in error.hint


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[int]:
    """A process that has chip 2 open, as /proc shows it."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    folder = tmp_path / f"proc/{process.pid}/fd"
    folder.mkdir(parents=True)
    (folder / "7").symlink_to("/dev/vfio/2")
    (folder.parent / "cmdline").write_bytes(b"/usr/bin/python3\0train.py\0")
    yield process.pid
    process.kill()
    process.wait()


def test_chips_that_are_in_use_leave_jax_unchecked_and_the_process_is_named(host, holder):
    log: list[str] = []
    expected = ExpectedHardware(emulated=False, devices_per_host=4)
    require_usable([host()], expected, log.append)
    assert len(log) == 1
    assert f"in use by process {holder} of " in log[0]
    assert log[0].endswith(": python3 train.py. So JAX was not checked there")


def test_the_first_line_of_what_libtpu_says_is_the_cause_where_no_other_is_known(host):
    error = refusal(host(backend_error="FAILED_PRECONDITION: no topology\nstack"))
    assert error.message.endswith(": FAILED_PRECONDITION: no topology.")


def test_an_emulated_host_is_on_the_cpu_and_usable(host):
    emulated = ExpectedHardware(emulated=True, devices_per_host=4)
    require_usable([host(devices=4)], emulated, print)
    with pytest.raises(TPUError, match="JAX does not work on host 0: no device"):
        require_usable([HostCheck(jax="1", backend_error="no device")], emulated, print)


def test_generations_are_told_apart_and_the_two_functions_of_a_tpu7x_are_one_chip(tmp_path):
    add_chip(tmp_path, "0000:00:04.0", "0x0027", "0x004f")
    add_chip(tmp_path, "0000:00:05.0", "0x0076")
    add_chip(tmp_path, "0000:00:05.1", "0x0076")
    add_chip(tmp_path, "0000:00:06.0", "0x9999")
    add_chip(tmp_path, "0000:00:07.0", "0x007c")
    add_chip(tmp_path, "0000:00:08.0", "0x0083")
    assert chips(str(tmp_path)) == ["v3", "TPU7x", "", "TPU8t", "TPU8i"]
    assert chips(os.fspath(tmp_path / "nowhere")) == []
