"""A daemon that hangs, alive or at its end, never keeps the next one from starting."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from fleet_world import others
from local_host import LocalHost
from waiting import eventually

from jupyter_tpu.errors import TPUError
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.on_host.packing import PACKAGE, agent_bundle

#: The agent's start with short limits.
UP = f"""
import sys
sys.path.insert(0, sys.argv[1])
from {PACKAGE}.agent.daemon import start
start.HELLO_SECONDS, start.SILENT_SECONDS = 0.5, 1.0
sys.exit(start.start_daemon())
"""
#: A daemon one of whose tasks can't be cancelled.
STUBBORN = f"""
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from {PACKAGE}.agent.daemon import daemon, start

async def hold_on(*_):
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

daemon.DAEMON_END_SECONDS = 1.0
daemon.WarmKernels.run = daemon.Runs.close = hold_on
sys.exit(start.run_daemon())
"""


def sources(host: LocalHost) -> str:
    return str(host.home / ".jupyter-tpu/agent" / agent_bundle().hash)


def log(host: LocalHost) -> Path:
    return host.home / ".jupyter-tpu/run" / f"{agent_bundle().hash}.log"


async def up(host: LocalHost) -> dict:
    return json.loads((await host.run([sys.executable, "-c", UP, sources(host)])).stdout)


async def test_one_that_is_told_to_end_while_something_changes_ends(host):
    for _ in range(4):
        agent = await host.agent()
        warm = requests.KeepWarmRequest(environments=[])
        asked = [agent.request(warm) for _ in range(4)]
        await asked.pop()
        os.kill(agent.hello["pid"], signal.SIGTERM)
        await asyncio.gather(*asked, return_exceptions=True)
        await agent.close()
        await eventually(lambda: not host.processes(), 10)


@pytest.mark.parametrize("socket", ["accepts", *others("is gone")])
async def test_one_that_hangs_is_ended_by_the_next_start_which_goes_on(host, socket):
    pid = (await host.agent()).hello["pid"]
    with log(host).open("a") as file:
        file.write("what it has said\n")
    os.kill(pid, signal.SIGSTOP)
    if socket == "is gone":
        log(host).with_suffix(".sock").unlink()
    assert "socket" in await up(host)
    host.cut()
    host.mend()
    assert (await host.agent()).hello["pid"] != pid
    assert "what it has said" in log(host).read_text()


async def test_an_end_that_hangs_takes_no_longer_than_its_limit_and_says_where(host):
    await (await host.agent()).close()
    await eventually(lambda: not host.processes())
    with log(host).open("w") as file:
        daemon = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", STUBBORN, sources(host)),
            stderr=file,
            env=host.environment,
        )
    await eventually(log(host).with_suffix(".sock").exists)
    daemon.send_signal(signal.SIGTERM)
    await daemon.wait()
    assert "Timeout" in log(host).read_text()
    with pytest.raises(TPUError):
        await host.open_unix(str(log(host).with_suffix(".sock")))
