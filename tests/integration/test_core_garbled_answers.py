"""Answers of the cloud that nobody can read, and an emulator that moves: the poll goes on, and
lists say what is wrong until it is over.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.cloud import tpu_v2
from google.rpc import code_pb2, status_pb2
from refusals import raises

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links

NAME = "projects/emulated/locations/us-west4-a/nodes/my-tpu"
GARBAGE = b"\xff\xff\xff no message at all"
NAMELESS = tpu_v2.Node(id=7, state="READY")  # a message, but no answer
STATUS_DETAILS = "grpc-status-details-bin"


class Garbler(grpc.GenericRpcHandler):
    """Answers about a TPU, or with what *mood* says; most other calls are unknown to it."""

    mood = "well"

    def service(self, call_details: grpc.HandlerCallDetails) -> Any:
        answers = {"ListNodes": self._list, "GetNode": self._get, "GetOperation": self._garbage}
        answer = answers.get(call_details.method.rpartition("/")[2])
        return answer and grpc.unary_unary_rpc_method_handler(answer)

    async def _garbage(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return GARBAGE

    async def _get(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return GARBAGE if self.mood == "garbage" else tpu_v2.Node.serialize(NAMELESS)

    async def _list(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        if self.mood == "garbage":
            return GARBAGE
        if self.mood == "a TPU without a name":
            return tpu_v2.ListNodesResponse.serialize(tpu_v2.ListNodesResponse(nodes=[NAMELESS]))
        if self.mood == "a status that does not fit":
            other = status_pb2.Status(code=code_pb2.NOT_FOUND, message="Something else.")
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "No.",
                trailing_metadata=((STATUS_DETAILS, other.SerializeToString()),),
            )
        node = tpu_v2.Node(name=NAME, id=7, state="READY", accelerator_type="v5litepod-4")
        return tpu_v2.ListNodesResponse.serialize(tpu_v2.ListNodesResponse(nodes=[node]))


class Setting:
    """A fleet on a cloud that garbles, and may move."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state_file = folder / "state.json"
        self.garbler = Garbler()
        (folder / "token").write_text("secret")

    async def serve(self) -> None:
        """The cloud, on a port of its own."""
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((self.garbler,))
        credentials = grpc.local_server_credentials(grpc.LocalConnectionType.LOCAL_TCP)
        port = self.server.add_secure_port("127.0.0.1:0", credentials)
        await self.server.start()
        address = {"id": "1", "grpc": f"127.0.0.1:{port}", "token_file": str(self.folder / "token")}
        self.state_file.write_text(json.dumps(address))

    async def states(self) -> dict[str, str]:
        await self.fleet._core.observer.refresh()
        return {tpu.name: tpu.state for tpu in (await self.fleet.tpus()).tpus}

    async def problem(self) -> Any:
        await self.fleet._core.observer.refresh()
        return (await self.fleet.status()).problem


@pytest_asyncio.fixture
async def setting(isolated_folders: Path, tmp_path: Path) -> AsyncIterator[Setting]:
    setting = Setting(tmp_path)
    await setting.serve()
    setting.cloud = CloudTPU(Target(emulator=str(setting.state_file)))
    links = Links(setting.cloud)
    specs = KernelSpecs(tmp_path / "kernels")
    setting.fleet = await Fleet.open(links, specs, tmp_path / "fleet.sqlite")
    yield setting
    await setting.fleet.close()
    await links.close()
    await setting.cloud.close()
    await setting.server.stop(None)


@pytest.mark.parametrize("mood", ["garbage", "a status that does not fit", "a TPU without a name"])
async def test_an_answer_that_cannot_be_read_is_reported_and_polling_continues(setting, mood):
    assert await setting.states() == {"my-tpu": "READY"}
    setting.garbler.mood = mood
    problem = await setting.problem()
    assert await setting.states() == {"my-tpu": "READY"}, "as it was last seen"
    with pytest.raises(TPUError) as caught:  # whoever asks
        await setting.cloud.list_nodes()
    assert caught.value.message == problem.message
    with pytest.raises(TPUError):
        await setting.fleet.delete("another")
    setting.garbler.mood = "well"
    assert await setting.problem() is None
    assert not any(loop.failures for loop in (await setting.fleet.status()).loops)


@pytest.mark.parametrize("mood", ["garbage", "a TPU without a name"])
async def test_what_is_asked_about_one_tpu_is_no_answer_if_nobody_can_read_it(setting, mood):
    setting.garbler.mood = mood
    for asking in (setting.cloud.get_node(parse_node_path(NAME)), setting.cloud.operation("o")):
        with raises(Reason.INTERNAL, "could not be read"):
            await asking
