"""Links to emulated hosts: found by name, keys pinned, healing."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
from cloud_operations import completed, create_node
from fault_proxy import FaultProxy
from refusals import raises
from waiting import eventually

from jupyter_tpu.cloud import CloudTPU, NodeName, NodeSpec, Target
from jupyter_tpu.cloud.tpu.nodes import node_path, parse_node_path
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.connections import HostConnections
from jupyter_tpu.fleet.setup.networks import client_address
from jupyter_tpu.links import HostName, Link, Links, LinkState
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.ssh import Keepalive, KnownHosts, ensure_key, public_key

pytestmark = pytest.mark.usefixtures("own_data")

QUICK = Keepalive(1.0, 2)


class CountingCloud(CloudTPU):
    """The real one, which counts its calls."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.calls: list[str] = []

    async def _call(self, method, request, timeout):
        self.calls.append(method)
        return await super()._call(method, request, timeout)


@pytest_asyncio.fixture
async def links(emulator) -> AsyncIterator[Links]:
    cloud = CountingCloud(Target(emulator=str(emulator.state_file)))
    made = Links(cloud, keepalive=QUICK)
    yield made
    await made.close()
    await cloud.close()


@pytest.fixture(scope="module")
def shared(emulator) -> Iterator[NodeName]:
    """A TPU for the tests that leave it as it was."""
    with emulator.tpu("shared") as node:
        yield parse_node_path(node["name"])


@pytest.fixture
def tpu(create_tpu) -> Callable[..., NodeName]:
    return lambda **fields: parse_node_path(create_tpu(**fields)["name"])


async def states(link: Link, *expected: LinkState, limit: float = 60.0) -> None:
    """Waits until *link* is, or was for a moment, in one of the states."""
    if link.state in expected:
        return
    seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    unsubscribe = link.subscribe(
        lambda changed: changed.state in expected and not seen.done() and seen.set_result(None)
    )
    try:
        await asyncio.wait_for(seen, limit)
    except TimeoutError:
        raise AssertionError(f"{link} is not {expected}: {link.problem}") from None
    finally:
        unsubscribe()


async def test_a_host_is_found_by_name_and_let_in_and_its_key_is_pinned(links, shared):
    node = shared
    link = links.get(HostName(node, 0))
    assert link is links.get(HostName(node, 0))
    assert link.state is LinkState.DOWN
    done = await link.run(["hostname"])
    assert done.stdout.strip().startswith("t1v-n-")
    assert done.stdout.strip().endswith("-w-0")
    google_node = await links.cloud.get_node(node)
    (pinned,) = KnownHosts().keys(f"tpu.{google_node.id}-0")[:1]
    (published,) = await links.cloud.guest_attributes(node)
    assert pinned == "ssh-ed25519 " + published["hostkeys", "ssh-ed25519"]
    assert public_key(ensure_key()) in google_node.metadata["ssh-keys"]


async def test_a_connected_host_tells_from_which_address_this_computer_comes(links, shared):
    connections = HostConnections(links)
    assert await client_address(connections, shared.project) is None
    (link,) = connections.acquire(shared, 1)
    await link.wait_up()
    assert await client_address(connections, shared.project) == "127.0.0.1/32"
    assert await client_address(connections, "another-project") is None
    connections.release(shared)


async def test_the_hosts_of_a_slice_connect_at_once_with_one_call_for_all(links, tpu):
    node = tpu(type="v5litepod-16")
    hosts = [links.get(HostName(node, worker)) for worker in range(4)]
    before = len(links.cloud.calls)
    done = await asyncio.gather(*(host.run(["sh", "-c", "echo $TPU_WORKER_ID"]) for host in hosts))
    assert [one.stdout for one in done] == ["0\n", "1\n", "2\n", "3\n"]
    calls = links.cloud.calls[before:]
    assert calls.count("update_node") == 1
    assert calls.count("get_guest_attributes") == 1
    assert calls.count("get_node") <= 3  # the look-up, and those of adding the key
    assert len(KnownHosts().path.read_text().splitlines()) == 4


async def test_a_key_that_is_there_from_the_start_is_not_added_again(links, tpu):
    node = tpu(metadata=links.key_metadata())
    await links.get(HostName(node, 0)).wait_up()
    assert "update_node" not in links.cloud.calls


async def test_a_cut_link_heals_at_the_first_attempt_and_says_what_happened(
    links, shared, emulator
):
    node = shared
    link = links.get(HostName(node, 0))
    link.acquire()
    await link.wait_up()
    seen: list[LinkState] = []
    link.subscribe(lambda changed: seen.append(changed.state))
    running = asyncio.ensure_future(link.run(["sleep", "100"]))
    await link.run(["true"])
    await asyncio.to_thread(emulator.inject_fault, "cut-links", node=node_path(node))
    with raises(Reason.UNREACHABLE) as caught:
        await running
    assert "lost" in caught.value.message
    assert (await link.run(["echo", "again"])).stdout == "again\n"
    assert seen == [LinkState.CONNECTING, LinkState.UP]
    assert link.problem is None
    link.release()
    assert link.state is LinkState.DOWN


async def test_a_link_that_had_no_credentials_goes_on_when_the_node_is_seen_again(
    links, shared, monkeypatch
):
    async def refused(*_):
        raise TPUError("Credentials have expired.", Reason.NO_CREDENTIALS)

    node = await links.cloud.get_node(shared)
    link = links.get(HostName(shared, 0))
    with monkeypatch.context() as away:
        away.setattr(links.cloud, "_call", refused)
        link.acquire()
        await states(link, LinkState.NEEDS_ATTENTION)
        assert link.problem.reason is Reason.NO_CREDENTIALS
    links.observe(node)
    await states(link, LinkState.UP)
    link.release()


async def test_a_node_that_took_the_name_of_another_is_another_host(links, tpu):
    name = f"tpu-{uuid.uuid4().hex[:8]}"
    node = tpu(name=name)
    link = links.get(HostName(node, 0))
    await link.wait_up()
    first = KnownHosts().path.read_text()
    await completed(links.cloud, links.cloud.begin_delete(node))
    tpu(name=name)
    await states(link, LinkState.WAITING, LinkState.CONNECTING, LinkState.NEEDS_ATTENTION)
    with contextlib.suppress(TPUError):  # an attempt that began before there was the new one
        await link.wait_up()
    await link.wait_up()
    second = KnownHosts().path.read_text()
    assert first != second
    assert len(second.splitlines()) == len(first.splitlines()), "the old key stayed"


async def test_a_command_that_takes_too_long_is_ended_on_the_host_too(links, shared):
    link = links.get(HostName(shared, 0))
    with raises(Reason.TIMEOUT):
        await link.run(["sh", "-c", "sleep 777 & sleep 778"], timeout=0.5)

    async def ended() -> bool:
        return "sleep 77" not in (await link.run(["ps", "ax", "-o", "args"])).stdout

    await eventually(ended)


async def test_a_link_that_was_only_borrowed_stays_a_while_and_a_released_one_ends(links, shared):
    link = links.get(HostName(shared, 0))
    await link.run(["true"])
    assert link.state is LinkState.UP
    link.acquire()
    link.acquire()
    link.release()
    assert link.state is LinkState.UP
    link.release()
    assert link.state is LinkState.DOWN


async def test_closing_the_links_ends_what_runs_over_them(links, shared):
    link = links.get(HostName(shared, 0))
    running = asyncio.ensure_future(link.run(["sleep", "100"]))
    await link.run(["true"])
    await asyncio.wait_for(links.close(), 60)
    with pytest.raises(TPUError):
        await asyncio.wait_for(running, 60)
    assert link.state is LinkState.DOWN


async def test_the_agent_is_put_there_once_per_connection_and_answers(links, shared, emulator):
    link = links.get(HostName(shared, 0))
    link.acquire()
    agents = await asyncio.gather(*(link.agent() for _ in range(5)))
    assert len({id(agent) for agent in agents}) == 1
    assert (await agents[0].request(requests.GetTimeRequest()))["time"]
    lost = asyncio.ensure_future(states(link, LinkState.CONNECTING, LinkState.WAITING))
    await asyncio.sleep(0)  # it is listening
    await asyncio.to_thread(emulator.inject_fault, "cut-links", node=node_path(shared))
    await lost
    again = await link.agent()
    assert again is not agents[0]
    assert (await again.request(requests.GetTimeRequest()))["time"]
    link.release()


@pytest.mark.long
async def test_hosts_of_the_emulators_last_resort_serve_as_well(emulator, tmp_path):
    """asyncssh's server in place of sshd, on a port of its own where 22 is not to be had."""
    fallback = await asyncio.to_thread(
        lambda: type(emulator)(tmp_path / "emulator", mode="fallback")
    )
    try:
        cloud = CloudTPU(Target(emulator=str(fallback.state_file)))
        node = NodeName(cloud.project, "us-central1-a", "one")
        await create_node(cloud, node, NodeSpec(type="v5litepod-4", version="v2-alpha-tpuv5-lite"))
        links = Links(cloud, keepalive=QUICK)
        link = links.get(HostName(node, 0))
        await link.put(b"there", "~/file")
        done = await link.run(["sh", "-c", "cat file; cat; exit 3"], input=b"!", check=False)
        assert (done.stdout, done.returncode) == ("there!", 3)
        with raises(Reason.TIMEOUT):
            await link.run(["sleep", "100"], timeout=0.5)
        await links.close()
        await cloud.close()
    finally:
        await asyncio.to_thread(fallback.stop)


async def test_a_link_that_is_only_kept_up_notices_a_silent_line_later(links, tpu, emulator):
    node = tpu()
    [host] = emulator.hosts(node.node)
    kept_up = Links(links.cloud, keepalive=QUICK)
    with FaultProxy(host["address"], host["port"], address=host["address"]) as line:
        fault = {"kind": "line", "node": node.node, "port": line.port}
        await asyncio.to_thread(emulator.request, "POST", "/emulator/v1/faults", fault)
        used, kept = (pool.get(HostName(node, 0)) for pool in (links, kept_up))
        used.acquire()
        kept.acquire(in_use=False)
        await asyncio.gather(used.wait_up(), kept.wait_up())
        line.hole()
        await states(used, LinkState.CONNECTING, LinkState.WAITING)
        assert kept.state is LinkState.UP
        kept.acquire()  # somebody uses it
        await states(kept, LinkState.CONNECTING, LinkState.WAITING)
        line.mend()
    await kept_up.close()
