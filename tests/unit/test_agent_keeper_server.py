"""Who gets a keeper's journal when several clients come at once."""

import asyncio
from typing import Any

import pytest
from waiting import eventually

from jupyter_tpu.on_host.agent.keeper.server import KeeperServer
from jupyter_tpu.on_host.agent.protocol.events import JournalEvent, Message, Opened
from jupyter_tpu.on_host.agent.protocol.journal import Journal
from jupyter_tpu.on_host.agent.protocol.pump import JournalDisconnected, Pump


class Handler:
    def handle_query(self, query: dict[str, Any]) -> dict[str, Any]:
        return {}

    def hello_fields(self) -> dict[str, Any]:
        return {}

    def handle_event(self, event: JournalEvent) -> None:
        pass

    async def wait_ended(self) -> None:
        raise AssertionError("nothing ends here")


class Client:
    """A client with a journal of its own."""

    def __init__(self) -> None:
        self.opened = 0
        self.messages: list[bytes] = []
        self.closed = False

    async def run(self, path: str, secret: str) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        self.journal = Journal()
        self.journal.connect({"lease": {"secret": secret, "holder": secret, "steal": True}})
        try:
            await Pump(self.journal, reader, writer, self.on_event).run()
        except JournalDisconnected:
            self.closed = True

    def on_event(self, event: JournalEvent) -> None:
        if isinstance(event, Opened):
            self.opened += 1
        elif isinstance(event, Message):
            self.messages.append(event.parts[0])


@pytest.mark.parametrize("secrets", [["same"] * 6, list("abcdef")], ids=["one's", "several"])
async def test_of_clients_that_come_at_once_one_gets_the_journal(tmp_path, secrets):
    journal = Journal()
    server = KeeperServer(Handler(), journal, "first")
    path = str(tmp_path / "keeper.sock")
    listening = await asyncio.start_unix_server(server.connected, path)
    first = Client()
    tasks = [asyncio.ensure_future(first.run(path, "first"))]
    await eventually(lambda: first.opened)
    clients = [Client() for _ in secrets]
    for client, secret in zip(clients, secrets, strict=True):
        tasks.append(asyncio.ensure_future(client.run(path, secret)))
    await eventually(lambda: sum(not client.closed for client in [first, *clients]) == 1)
    [master] = [client for client in clients if not client.closed]
    journal.send(4, [b"for one"])
    server.wake()
    await eventually(lambda: master.messages)
    assert [client.messages for client in clients].count([b"for one"]) == 1
    assert server.has_client
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    listening.close()
    await server.close()
