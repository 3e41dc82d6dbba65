"""What hangs on a TPU that is replaced: what is found, what is said of it, what comes back."""

from types import SimpleNamespace
from typing import Any

from jupyter_tpu.cloud.models import Node, NodeName, NodeState
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.core.operation_records import (
    Belongings,
    FolderShare,
    OperationRecord,
    RestoredEnvironment,
)
from jupyter_tpu.fleet.core.operation_runner import OperationRunner
from jupyter_tpu.fleet.core.records import EnvironmentRecord, TunnelRecord
from jupyter_tpu.fleet.core.state_folder import ProcessLease
from jupyter_tpu.fleet.lifecycle.belongings import TPUBelongings, words
from jupyter_tpu.fleet.models import (
    ConnectTPU,
    Environment,
    KeepWarm,
    OpenTunnel,
    SharedFolder,
    SharedFolders,
    ShareFolder,
    SharingState,
    SyncProject,
)

NAME = NodeName("p", "us-east5-a", "my-tpu")
NODE = Node(name=NAME, id="1", type="v6e-2x4", state=NodeState.READY, api="compute")
SYNC = SyncProject(folder="/project", watch=True)
TUNNEL = TunnelRecord(
    id="t",
    project="p",
    zone=NAME.zone,
    tpu=NAME.node,
    node_id="1",
    host=1,
    port=6006,
    local_port=7007,
    address="127.0.0.1",
    created="",
    owner="",
)


def environment(name: str, **options: Any) -> EnvironmentRecord:
    return EnvironmentRecord(
        node_id="1",
        request=ConnectTPU(environment=name, then_run="train", **options),
        environment=Environment(name=name, tpu=NAME.node, zone=NAME.zone, state="ready"),
        warm=KeepWarm(wanted=True),
    )


class Services:
    """The fleet's parts that it asks, and what they were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.refuses: set[int] = set()  # ports
        self.folders: SharedFolders | TPUError = SharedFolders(folders=[])
        self.known: SharedFolders | None = None
        self.environments = [environment("extra", packages=["einops"]), environment("default")]
        self.connected = {NAME: "1"}

    def belongings(self) -> TPUBelongings:
        desired = SimpleNamespace(
            connected=self.connected,
            environments=lambda _: {e.environment.name: e for e in self.environments},
        )
        core: Any = SimpleNamespace(
            desired=desired,
            observed=SimpleNamespace(node=lambda _: NODE),
            connected=SimpleNamespace(chips=lambda _, name: [[0, 1]]),
        )
        tunnels: Any = SimpleNamespace(kept=lambda _: [TUNNEL], open=self.open)
        sync: Any = SimpleNamespace(projects=lambda *_: [SYNC], bring_back=self.sync)
        shares: Any = SimpleNamespace(
            list=self.list, start=self.share, last_known=lambda _: self.known
        )
        return TPUBelongings(core, tunnels, sync, shares)

    async def open(self, ref: str, tunnel: OpenTunnel) -> None:
        if tunnel.port in self.refuses:
            raise TPUError("Local port 7007 is in use.", Reason.CONFLICT)
        self.asked.append((ref, tunnel))

    async def sync(self, node: Node, requests: list[SyncProject]) -> list[str]:
        self.asked += [(node.name.node, request) for request in requests]
        return ["/gone is not copied again: it does not exist."]

    async def share(self, ref: str, request: ShareFolder) -> None:
        self.asked.append((ref, request))

    async def list(self, ref: str) -> SharedFolders:
        if isinstance(self.folders, TPUError):
            raise self.folders
        return self.folders


def folders(*tpus: str) -> SharedFolders:
    hosts = [SharingState(tpu=tpu, host=0, role="client", mounted=True) for tpu in tpus]
    return SharedFolders(folders=[SharedFolder(path="/home/me/shared", tpu=tpus[0], hosts=hosts)])


async def test_all_environments_are_found_the_usual_one_first():
    belongings, lost = await Services().belongings().find(NODE)
    assert [environment.connect.environment for environment in belongings.environments] == [
        "default",
        "extra",
    ]
    assert [environment.connect.packages for environment in belongings.environments] == [
        [],
        ["einops"],
    ]
    assert all(environment.connect.then_run == "" for environment in belongings.environments), (
        "a job began again"
    )
    assert belongings.environments[0].warm == KeepWarm(wanted=True)
    assert belongings.environments[0].chips == [[0, 1]]
    assert belongings.tunnels == [OpenTunnel(port=6006, local_port=7007, host=1)]
    assert (belongings.syncs, lost) == ([SYNC], [])


async def test_what_does_not_come_back_is_said():
    services = Services()
    services.environments = [environment("mine", python_path="/home/me/venv")]
    _, (said,) = await services.belongings().find(NODE)
    assert "mine" in said
    assert "/home/me/venv" in said

    services.connected = {}
    belongings, (said,) = await services.belongings().find(NODE)
    assert belongings.environments == []
    assert said == "The environment mine is not created again, since the TPU is not connected."

    services.connected = {NAME: "1"}
    services.environments = []
    services.folders = TPUError("Host 0 can't be reached.", Reason.UNREACHABLE)
    belongings, (said,) = await services.belongings().find(NODE)
    assert said == "Host 0 can't be reached. Folders that they share are not shared again."


async def test_folders_are_shared_with_the_tpus_that_had_them():
    services = Services()
    services.folders = folders("my-tpu", "other", "other")
    belongings, _ = await services.belongings().find(NODE)
    request = ShareFolder(folder="/home/me/shared", tpus=["other"])
    assert belongings.shares == [FolderShare(tpu="my-tpu", request=request)]

    # What they said last is used when they don't answer.
    services.known, services.folders = services.folders, TPUError("Down.", Reason.UNREACHABLE)
    assert (await services.belongings().find(NODE))[0].shares == belongings.shares


async def test_one_tunnel_that_fails_does_not_keep_the_rest_from_coming_back():
    services = Services()
    services.refuses = {1}
    share = FolderShare(tpu="my-tpu", request=ShareFolder(folder="/shared"))
    log: list[str] = []
    belongings = Belongings(
        tunnels=[OpenTunnel(port=1), OpenTunnel(port=2)],
        syncs=[SyncProject(folder="/other", watch=True), SYNC],
        shares=[share],
    )
    await services.belongings().restore(NAME, belongings, log.append)
    ref = "us-east5-a~my-tpu"
    assert services.asked == [
        (ref, OpenTunnel(port=2)),
        *(("my-tpu", sync) for sync in belongings.syncs),
        (ref, share.request),
    ]
    assert log == [
        "The tunnel to port 1 could not be opened again: Local port 7007 is in use.",
        "/gone is not copied again: it does not exist.",
    ]

    # Sharing installs packages, as environments do, so it waits for them.
    services.asked.clear()
    belongings.environments = [RestoredEnvironment(connect=ConnectTPU())]
    await services.belongings().restore(NAME, belongings, log.append)
    assert share.request not in [request for _, request in services.asked]


def test_words_for_one_and_for_several():
    copied = [SyncProject(folder="/data"), SyncProject(folder="/more"), SYNC]
    one = Belongings(tunnels=[OpenTunnel(port=6006, local_port=7007)], syncs=copied)
    assert words(one) == [
        "The tunnel 7007 → 6006 is opened again.",
        "The local folders /data, /more are copied again.",
        "The local folder /project is watched and copied again.",
    ]
    names = [RestoredEnvironment(connect=ConnectTPU(environment=name)) for name in ("a", "b")]
    assert words(Belongings(environments=names)) == [
        "The environments a, b are created again, with the packages and kernels."
    ]


def test_of_two_connects_that_a_dead_process_left_the_later_one_is_resumed(tmp_path):
    saved: list[OperationRecord] = []
    store: Any = SimpleNamespace(save_operation=saved.append)
    for first in (0, 1):
        runner = OperationRunner(store, ProcessLease(tmp_path / str(first)))
        records = [runner.new_record("connect", NAME) for _ in range(2)]
        for second, record in enumerate(records):
            record.operation.created = f"2026-01-01T00:00:0{second}Z"
        for record in (records[first], records[1 - first]):
            runner.keep_until_seen(record)
        assert runner.known.resumable == {NAME: records[1]}
        assert [record.operation.state for record in records] == ["failed", "running"]
