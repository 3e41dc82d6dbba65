"""`Cloud` against the emulator's gRPC: what Google answers, as our models and reasons."""

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio
from cloud_operations import completed, create_node

from jupyter_tpu.cloud import Cloud, CloudTPU, NodeName, NodeSpec, Target
from jupyter_tpu.cloud.tpu.nodes import node_path
from jupyter_tpu.errors import Reason, TPUError

ZONE = "us-central1-a"
SPEC = NodeSpec(type="v5litepod-4", version="v2-alpha-tpuv5-lite")


@pytest_asyncio.fixture
async def cloud(emulator) -> AsyncIterator[Cloud]:
    made = CloudTPU(Target(emulator=str(emulator.state_file)))
    yield made
    await made.close()


@pytest.fixture
def name(cloud, emulator):
    """A name nobody has; the node is deleted afterwards if it was made."""
    made = NodeName(cloud.project, ZONE, f"tpu-{uuid.uuid4().hex[:8]}")
    yield made
    try:
        emulator.wait(emulator.request("DELETE", f"/v2/{node_path(made)}"))
    except Exception as error:
        if getattr(error, "status", None) not in (404, 409):
            raise


async def reason_of(work) -> TPUError:
    with pytest.raises(TPUError) as caught:
        await work
    assert "\n" not in caught.value.message
    return caught.value


async def test_a_node_is_created_listed_stopped_started_and_deleted(cloud, name):
    spec = msgspec.structs.replace(SPEC, labels={"a": "b"}, metadata={"m": "1"})
    node = await create_node(cloud, name, spec)
    assert (node.name, node.type, node.state) == (name, "v5litepod-4", "READY")
    assert (node.labels, node.metadata) == ({"a": "b"}, {"m": "1"})
    assert (node.tier, node.version) == ("on-demand", "v2-alpha-tpuv5-lite")
    assert node.id.isdigit()
    assert node.created.endswith("Z")
    (endpoint,) = node.endpoints
    assert endpoint.internal
    assert endpoint.external
    assert endpoint.internal != endpoint.external

    for zone in ("-", ZONE):
        assert name in [node.name for node in (await cloud.list_nodes(zone)).nodes]
    await completed(cloud, cloud.begin_stop(name))
    stopped = await cloud.get_node(name)
    assert (stopped.state, stopped.id) == ("STOPPED", node.id)
    await completed(cloud, cloud.begin_start(name))
    started = await cloud.get_node(name)
    assert (started.state, started.id) == ("READY", node.id)
    await completed(cloud, cloud.begin_delete(name))
    assert (await reason_of(cloud.get_node(name))).reason is Reason.NOT_FOUND
    assert (await reason_of(cloud.begin_delete(name))).reason is Reason.NOT_FOUND


async def test_tiers_and_hosts_of_a_slice_arrive(cloud, name):
    node = await create_node(
        cloud, name, NodeSpec(type="v5litepod-16", version="v2-alpha-tpuv5-lite", tier="spot")
    )
    assert node.tier == "spot"
    assert len({endpoint.internal for endpoint in node.endpoints}) == 4
    published = await cloud.guest_attributes(name)
    assert len({worker["hostkeys", "ssh-ed25519"] for worker in published}) == 4
    assert [worker["vm", "hostname"][-3:] for worker in published] == ["w-0", "w-1", "w-2", "w-3"]


async def test_our_key_is_added_once_beside_the_others(cloud, name):
    theirs = "ann:ssh-ed25519 AAAAtheirs ann"
    await create_node(cloud, name, msgspec.structs.replace(SPEC, metadata={"ssh-keys": theirs}))
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    assert await cloud.add_ssh_key(name, "ben", key)
    assert not await cloud.add_ssh_key(name, "ben", key + " a comment")
    lines = (await cloud.get_node(name)).metadata["ssh-keys"].splitlines()
    assert lines == [theirs, f"ben:{key} ben"]


async def test_keys_added_at_the_same_moment_all_arrive(cloud, name, monkeypatch):
    await create_node(cloud, name, SPEC)
    get_node, pauses = cloud.get_node, iter([0.0, *[2.0] * 10])

    async def get_slowly(name):
        node = await get_node(name)
        await asyncio.sleep(next(pauses))  # meanwhile the first one has changed it
        return node

    monkeypatch.setattr(cloud, "get_node", get_slowly)
    body = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GK"
    await asyncio.gather(
        *(cloud.add_ssh_key(name, f"user{n}", f"ssh-ed25519 {body}{n:02}") for n in range(3))
    )
    lines = (await cloud.get_node(name)).metadata["ssh-keys"].splitlines()
    assert sorted(line.partition(":")[0] for line in lines) == [f"user{n}" for n in range(3)]


@pytest.mark.parametrize(
    ("node", "changes", "zone", "reason", "said"),
    [
        ("Bad_Name", {}, ZONE, Reason.INVALID, "Bad_Name"),
        (None, {"type": "v9-8"}, ZONE, Reason.INVALID, "v9-8"),
        (None, {"type": "v4-8"}, ZONE, Reason.INVALID, "v4-8"),
        (None, {"version": "no-such"}, ZONE, Reason.INVALID, "no-such"),
        (None, {}, "moon-1a", Reason.PERMISSION, "moon-1a"),
    ],
)
async def test_a_request_google_would_refuse_is_refused_in_one_sentence(
    cloud, name, node, changes, zone, reason, said
):
    name_asked = NodeName(cloud.project, zone, node or name.node)
    error = await reason_of(
        create_node(cloud, name_asked, msgspec.structs.replace(SPEC, **changes))
    )
    assert error.reason is reason
    assert said in error.message
    assert "EID" not in error.message


async def test_a_name_that_is_taken_says_so(cloud, name):
    await create_node(cloud, name, SPEC)
    error = await reason_of(create_node(cloud, name, SPEC))
    assert error.reason is Reason.EXISTS
    assert name.node in error.message


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("no-capacity", Reason.NO_CAPACITY),
        ("quota", Reason.QUOTA),
        ("permission", Reason.PERMISSION),
    ],
)
async def test_googles_refusals_have_their_reasons(cloud, name, faults, fault, reason):
    faults(kind=fault, zone=ZONE, count=1)
    error = await reason_of(create_node(cloud, name, SPEC))
    assert error.reason is reason
    assert error.hint
    assert "EID" not in error.message


async def test_a_start_without_capacity_says_so_and_the_node_stays(cloud, name, faults):
    await create_node(cloud, name, SPEC)
    await completed(cloud, cloud.begin_stop(name))
    faults(kind="no-capacity", zone=ZONE, count=1)
    assert (await reason_of(completed(cloud, cloud.begin_start(name)))).reason is Reason.NO_CAPACITY
    assert (await cloud.get_node(name)).state == "STOPPED"


async def test_zones_that_do_not_answer_are_named(cloud, faults):
    faults(kind="unreachable", zone="us-east5-b")
    assert (await cloud.list_nodes()).unreachable == ("us-east5-b",)


async def test_offered_types_are_listed_by_zone(cloud):
    assert {ZONE, "us-central2-b"} <= set(await cloud.locations())
    assert "v5litepod-4" in await cloud.accelerator_types(ZONE)
    assert "v4-8" not in await cloud.accelerator_types(ZONE)
    assert "v2-alpha-tpuv5-lite" in await cloud.runtime_versions(ZONE)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL"])
async def test_a_read_that_fails_for_a_moment_is_repeated_and_a_change_is_not(
    cloud, name, faults, code
):
    faults(kind="error", method="ListLocations", code=code, count=2)
    assert ZONE in await cloud.locations()
    faults(kind="error", method="CreateNode", code=code, count=1)
    assert (await reason_of(create_node(cloud, name, SPEC))).reason is Reason.UNAVAILABLE
    assert (await reason_of(cloud.get_node(name))).reason is Reason.NOT_FOUND


async def test_repeating_has_an_end(cloud, faults):
    faults(kind="error", method="ListLocations", code="INTERNAL")
    begun = asyncio.get_running_loop().time()
    assert (await reason_of(cloud.locations())).reason is Reason.UNAVAILABLE
    assert asyncio.get_running_loop().time() - begun < 10


async def test_a_rate_limit_says_when_to_ask_again(cloud, faults):
    text = "Quota exceeded for quota metric 'Reads' and limit 'Reads per minute per project'."
    faults(kind="error", code="RESOURCE_EXHAUSTED", message=text, retry_after=30.0, count=1)
    error = await reason_of(cloud.locations())
    assert (error.reason, error.retry_after) == (Reason.RATE_LIMITED, 30.0)
    assert error.scope == "project"


async def test_a_tpu_with_quota_in_its_name_is_like_any_other(cloud, emulator):
    name = NodeName(cloud.project, ZONE, "quota-exceeded")
    assert (await reason_of(cloud.get_node(name))).reason is Reason.NOT_FOUND
    await create_node(cloud, name, SPEC)
    assert (await reason_of(create_node(cloud, name, SPEC))).reason is Reason.EXISTS
    await completed(cloud, cloud.begin_delete(name))


async def test_another_token_than_the_emulators_is_refused(emulator, tmp_path):
    (tmp_path / "token").write_text("wrong")
    content = msgspec.json.decode(emulator.state_file.read_bytes())
    content["token_file"] = str(tmp_path / "token")
    (tmp_path / "state").write_bytes(msgspec.json.encode(content))
    cloud = CloudTPU(Target(emulator=str(tmp_path / "state")))
    error = await reason_of(cloud.list_nodes())
    assert error.reason is Reason.NO_CREDENTIALS
    (tmp_path / "token").unlink()
    assert (await reason_of(cloud.list_nodes())).reason is Reason.NO_CREDENTIALS
    await cloud.close()


async def test_an_emulator_that_was_started_again_elsewhere_is_found_by_its_file(
    emulator, tmp_path
):
    state = tmp_path / "state"
    content = msgspec.json.decode(emulator.state_file.read_bytes())
    state.write_bytes(msgspec.json.encode({**content, "grpc": "127.0.0.1:1"}))
    cloud = CloudTPU(Target(emulator=str(state)))
    waiting = asyncio.ensure_future(cloud.list_nodes())  # repeated while nobody answers
    await asyncio.sleep(0)
    state.write_bytes(msgspec.json.encode(content))
    os.utime(state, ns=(1, 1))
    assert isinstance((await waiting).nodes, tuple)
    await cloud.close()


async def test_an_emulator_that_has_ended_is_reported(emulator, tmp_path):
    state = tmp_path / "state"
    content = msgspec.json.decode(emulator.state_file.read_bytes())
    state.write_bytes(msgspec.json.encode({**content, "grpc": "127.0.0.1:1"}))
    cloud = CloudTPU(Target(emulator=str(state)))
    error = await reason_of(cloud.list_nodes())
    assert error.reason is Reason.UNAVAILABLE
    assert "jupyter tpu emulator" in error.hint
    await cloud.close()


async def test_a_proxy_set_for_the_internet_is_not_asked_for_the_emulator(emulator, monkeypatch):
    for variable in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    cloud = CloudTPU(Target(emulator=str(emulator.state_file)))
    assert isinstance((await cloud.list_nodes()).nodes, tuple)
    await cloud.close()


#: What `%tpu list` and `!true` do in the kernel of a notebook.
FORKING = """
import os
from jupyter_tpu.terminal.session import open_session
with open_session() as session:
    session.tpus()
    for _ in range(5):
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
print([name for name in os.environ if name == "GRPC_ENABLE_FORK_SUPPORT"])
"""


async def test_a_process_that_has_called_google_forks_without_a_word(emulator, tmp_path):
    folders = ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environment = {**os.environ, **emulator.environment}
    environment |= {name: str(tmp_path / name.lower()) for name in folders}
    # Python 3.12 and newer warn of each fork of a process with threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING]
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
