"""Files and folders copied to the hosts of a pod and back, over real SSH."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from cli_shell import COMMAND
from forked import forks
from sharing_hosts import REMOVE_STAND_INS, STAND_INS
from stormy_host import line_to

from jupyter_tpu.cloud import CloudTPU, Node, NodeName, Target
from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.commands.describe import description
from jupyter_tpu.errors import Reason
from jupyter_tpu.files.copy.copying import download, upload
from jupyter_tpu.files.copy.spreading import upload_to_hosts
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import Operation, ShareFolder, ShareResult
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Link, Links
from jupyter_tpu.ssh import Keepalive

MIB = 1 << 20
HOSTS = 4


def quiet(*_: object) -> None:
    """For what a test does not look at."""


@pytest.fixture(scope="module")
def pod(emulator: Any) -> Iterator[NodeName]:
    with emulator.tpu("copies", "v5litepod-16") as node:
        yield parse_node_path(node["name"])


@pytest_asyncio.fixture
async def links(emulator: Any) -> AsyncIterator[Links]:
    cloud = CloudTPU(Target(emulator=str(emulator.state_file)))
    made = Links(cloud, keepalive=Keepalive(1.0, 2))
    yield made
    await made.close()
    await cloud.close()


@pytest_asyncio.fixture
async def node(links: Links, pod: NodeName) -> Node:
    return await links.cloud.get_node(pod)


def link_to(links: Links, pod: NodeName, host: int) -> Link:
    return links.get(HostName(pod, host))


async def on_hosts(links: Links, pod: NodeName, script: str) -> list[str]:
    """What a shell prints on each host."""
    calls = [link_to(links, pod, host).run(["sh", "-c", script]) for host in range(HOSTS)]
    return [done.stdout for done in await asyncio.gather(*calls)]


def tpu(
    emulator: Any, folder: Path, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **emulator.environment, **variables}
    if not variables:
        return forks().run("jupyter_tpu.cli", words, env=env, cwd=folder, timeout=120)
    return subprocess.run(  # they are for Python's start
        [*COMMAND, *words],
        env=env,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


async def test_the_command_copies_a_folder_to_all_hosts_and_back(emulator, links, pod, tmp_path):
    (tmp_path / "my data" / "sub").mkdir(parents=True)
    (tmp_path / "my data" / "big").write_bytes(os.urandom(5 * MIB))
    (tmp_path / "my data" / "sub" / "-日本.txt").write_text("x")

    async def command(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(tpu, emulator, tmp_path, "copy", *words, **more)

    sent = await command("my data", f"{pod.node}:", "--worker", "all", "--json")
    assert sent.returncode == 0, sent.stderr
    copies = json.loads(sent.stdout)
    assert [(copy["host"], copy["files"]) for copy in copies] == [
        (host, 2) for host in range(HOSTS)
    ]
    look = "cd 'my data' && sha256sum big && ls sub && ls -A ~/.cache/jupyter-tpu/copies; ls -A ~"
    first, *others = await on_hosts(links, pod, look)
    assert others == [first] * (HOSTS - 1)
    assert first.splitlines()[1] == "-日本.txt"
    assert ".jupyter-tpu-" not in first

    (tmp_path / "my data" / "big").write_bytes(b"changed")
    refused = await command("my data", f"{pod.node}:")
    assert refused.returncode == 1
    assert "my data/big exists" in refused.stderr
    assert "Add --overwrite" in refused.stderr
    assert (await on_hosts(links, pod, look))[0] == first

    # Loading Google's client would take longer than the copy.
    back = await command(
        "--worker", "3", f"{pod.node}:my data", "back", PYTHONPROFILEIMPORTTIME="1"
    )
    assert " asyncssh" in back.stderr
    assert " grpc" not in back.stderr
    assert back.returncode == 0, back.stderr
    assert "Copied 2 files, 5.24 MB to " in back.stdout
    assert len((tmp_path / "back" / "big").read_bytes()) == 5 * MIB
    assert (tmp_path / "back" / "sub" / "-日本.txt").read_text() == "x"


async def test_a_host_that_fails_is_named_and_the_others_have_the_files(links, node, tmp_path):
    pod = node.name
    (tmp_path / "model").write_text("new")
    await link_to(links, pod, 2).run(["sh", "-c", "echo mine > model"])
    ended: list[int] = []
    copies = await upload_to_hosts(
        links,
        node,
        range(HOSTS),
        [str(tmp_path / "model")],
        "model",
        report=quiet,
        ended=lambda copy: ended.append(copy.host),
    )
    assert [copy.state for copy in copies] == ["done", "done", "failed", "done"]
    assert copies[2].problem.reason is Reason.EXISTS
    assert "host 2" in copies[2].problem.message
    assert sorted(ended) == list(range(HOSTS))
    assert await on_hosts(links, pod, "cat model") == ["new", "new", "mine\n", "new"]


async def test_a_copy_goes_on_where_the_connection_was_cut(emulator, links, pod, tmp_path):
    size = 24 * MIB
    (tmp_path / "up").write_bytes(os.urandom(size))
    link = link_to(links, pod, 0)
    with line_to(emulator, pod.node) as line:
        for way in ("up", "down"):
            cut = False

            def report(done: int, total: int) -> None:
                nonlocal cut
                if not cut and done > total / 2:
                    cut = True
                    line.reset()

            before = sum(line.count())
            if way == "up":
                await upload(link, [str(tmp_path / "up")], "up", report=report)
            else:
                await download(link, ["up"], str(tmp_path / "down"), report=report)
            assert cut
            assert sum(line.count()) - before < 1.5 * size
    assert (tmp_path / "down").read_bytes() == (tmp_path / "up").read_bytes()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".copy")]


@pytest_asyncio.fixture
async def fleet(links: Links, tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = await Fleet.open(links, KernelSpecs(), tmp_path / "fleet.sqlite", supervise=False)
    yield fleet
    await fleet.close()


async def share(fleet: Fleet, pod: NodeName, **request: Any) -> tuple[Operation, ShareResult]:
    started = await fleet.shares.start(pod.node, ShareFolder(folder="my shared", **request))
    ended = await fleet.operations.wait(started.id)
    return ended, msgspec.convert(ended.result, ShareResult)


async def test_an_emulated_pod_says_what_sharing_would_do_and_that_it_can_not(fleet, links, pod):
    before = await on_hosts(links, pod, "ls -A . /etc/exports.d 2>&1; true")
    dry, plan = await share(fleet, pod, dry_run=True)
    assert (dry.state, len(plan.hosts)) == ("done", HOSTS)
    exports = next(step for step in plan.hosts[0].steps if "/etc/exports.d/" in step.text)
    assert "/my\\040shared " in exports.content
    assert [host.problem is not None for host in plan.hosts] == [True] * HOSTS

    refused, _ = await share(fleet, pod)
    assert (refused.state, refused.problem.reason) == ("failed", Reason.CONFLICT)
    for host in range(HOSTS):
        assert f"ost {host} of {pod.node}: It has no systemd" in refused.problem.message
    assert ".;" not in refused.problem.message
    assert refused.problem.message.endswith("Nothing was changed.")
    assert "Emulated hosts have neither" in refused.problem.hint
    assert await on_hosts(links, pod, "ls -A . /etc/exports.d 2>&1; true") == before
    assert not (await fleet.shares.list(pod.node)).folders


async def test_a_folder_is_shared_and_taken_back(fleet, links, node, pod):
    """Up to the mount itself, which the check at the end says is not there."""
    await on_hosts(links, pod, STAND_INS)
    try:
        failed, result = await share(fleet, pod)
        assert [host.state for host in result.hosts] == ["done", *["failed"] * (HOSTS - 1)]
        for host in range(1, HOSTS):
            assert f"ost {host} of {pod.node}: /home/" in failed.problem.message
        assert "TCP port 2049" in failed.problem.hint
        look = (
            "stat -c '%a %U' 'my shared'; cat /etc/exports.d/jupyter-tpu-* "
            "/etc/systemd/system/*my*.mount 2>/dev/null; cat /tmp/called"
        )
        server, *clients = await on_hosts(links, pod, look)
        assert server.startswith("700 ")
        for host in range(1, HOSTS):
            assert f" {node.endpoints[host].internal}(rw,sync," in server
        assert f" {node.endpoints[0].internal}(" not in server
        assert "systemctl enable --now nfs-server\nexportfs -ra\n" in server
        for client in clients:
            assert f"What={node.endpoints[0].internal}:" in client
            assert "systemctl enable --now " in client

        known = (await fleet.tpu(pod.node)).shares
        (folder,) = known.folders
        assert [host.mounted for host in folder.hosts] == [True, *[False] * (HOSTS - 1)]
        assert {host.problem for host in folder.hosts[1:]} == {
            "The folder is not mounted. Share it again, or start host 0."
        }
        described = description(await fleet.tpu(pod.node), [])
        assert f"{folder.path}  {pod.node}  0     on its disk\n" in described
        assert f"{folder.path}  {pod.node}  3     The folder is not mounted." in described
        assert f"(asked at {known.time})" in described

        await link_to(links, pod, 0).run(["touch", "my shared/kept"])
        removed, result = await share(fleet, pod, remove=True)
        assert removed.state == "done", removed.problem
        known = (await fleet.tpu(pod.node)).shares
        assert not known.folders
        left = await on_hosts(
            links, pod, "ls -d 'my shared'/*; ls /etc/exports.d/jup* /etc/systemd/system/*my*; true"
        )
        assert left == ["my shared/kept\n", *[""] * (HOSTS - 1)]
        again, _ = await share(fleet, pod, remove=True)
        assert again.problem.reason is Reason.NOT_FOUND
    finally:
        await on_hosts(links, pod, REMOVE_STAND_INS)
