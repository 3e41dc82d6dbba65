"""Environments on hosts that lack something: Python, its tools, disk; and what is said then."""

import asyncio

import pytest
from new_environments import LIMIT
from refusals import raises

from jupyter_tpu import environment
from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.environment import (
    HostSetup,
)
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import EnvironmentDefaults, Fleet
from jupyter_tpu.fleet.client import wait_for_end
from jupyter_tpu.fleet.models import ConnectTPU
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links


async def test_a_host_without_python_is_refused_with_what_to_do(on_new_tpu):
    with raises(Reason.NO_PYTHON, r"no Python 3\.8 or newer on host 0") as error:
        await on_new_tpu(without_python="true").make()
    assert "apt-get install python3" in error.value.hint


async def test_a_disk_that_is_too_small_is_reported_before_anything_is_downloaded(on_new_tpu):
    making = on_new_tpu(disk_limit_mb="100")
    with raises(Reason.DISK_FULL, "MiB of disk are free; an environment"):
        await making.make()
    assert not any("Downloading" in line for line in making.log)


async def test_a_disk_that_runs_full_on_the_way_is_named_and_the_rest_goes_on_after(
    on_new_tpu, monkeypatch
):
    monkeypatch.setitem(environment.creation.FREE_BYTES, "jax", (0, 50 * 2**20))
    making = on_new_tpu(disk_limit_mb="150")  # room for uv, not for JAX
    with raises(Reason.DISK_FULL, "disk is full") as error:
        await making.make()
    assert "du -sh" in error.value.hint
    uv = await making.run("ls", ".jupyter-tpu/bin")
    assert uv == "uv"


@pytest.mark.long
async def test_a_host_without_venv_and_pip_gets_an_environment_and_invalid_requests_are_errors(
    on_new_tpu,
):
    making = on_new_tpu(without_python_tools="true")
    with pytest.raises(TPUError, match="not a Python version"):
        await making.make(python="new")
    made = await making.make(packages=["einops"], requirements="# mine\nattrs>=20\n")
    assert (made.devices, made.platform) == (4, "cpu")
    python = f"{made.path}/bin/python"
    check = "import jax, ipykernel, zmq, ipywidgets, einops, attr; print(jax.__version__)"
    assert await making.run(python, "-c", check) == made.jax
    assert await making.run("stat", "-c", "%a", ".jupyter-tpu") == "700"

    with raises(Reason.CONFLICT, "default has Python"):
        await making.make(python="3.99")
    with pytest.raises(TPUError, match=r"Python 3\.99 is not on the host") as error:
        await making.make(environment="other", python="3.99")
    assert error.value.hint.startswith(("Choose 3.", "Let the host"))

    # A broken one is mended: the marker alone makes nothing ready.
    await making.run("rm", "-r", f"{made.path}/bin")
    assert (await making.make(packages=["einops"], requirements="# mine\nattrs>=20\n")) == made


async def test_secrets_in_requirements_are_in_no_process_list_and_no_log(on_new_tpu, emulator):
    making = on_new_tpu()
    name = making.link.host.node.node
    seen: set[str] = set()

    async def watch() -> None:
        while True:
            hosts = await asyncio.to_thread(emulator.hosts, name)
            seen.update(str(p["cmdline"]) for host in hosts for p in host["processes"])
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    secret = "--extra-index-url http://user:geheim@127.0.0.1:9/simple\nno-such-package-4711"
    try:
        with pytest.raises(TPUError) as error:
            await making.make(requirements=secret)
    finally:
        watching.cancel()
    assert error.value.reason is Reason.ENVIRONMENT
    assert any("uv" in line for line in seen)
    assert not any("geheim" in line for line in seen)
    assert "geheim" not in str(error.value) + "\n".join(making.log)


async def test_a_new_environment_is_asked_for_with_the_servers_defaults(
    emulator, create_tpu, tmp_path
):
    tpu = create_tpu(metadata={"emulator-without-python": "true"})  # so that it ends soon
    ref = parse_node_path(tpu["name"]).node
    script = tmp_path / "setup.sh"
    script.write_text("touch ready")
    defaults = EnvironmentDefaults(packages=["flax"], setup_script=str(script))
    links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
    fleet = await Fleet.open(
        links, KernelSpecs(tmp_path / "kernels"), tmp_path / "fleet.sqlite", defaults=defaults
    )
    try:
        operation = await fleet.connect(ref, ConnectTPU(packages=["optax"]))
        ended = await asyncio.wait_for(wait_for_end(fleet, operation), LIMIT)
        assert "It also gets what c.JupyterTPU.environment_defaults names" in ended.log
        (environment,) = (await fleet.tpu(ref)).environments
        assert environment.asked == ConnectTPU(
            packages=["flax", "optax"], setup=HostSetup(script="touch ready")
        )
    finally:
        await fleet.close()
        await links.close()
        await links.cloud.close()
