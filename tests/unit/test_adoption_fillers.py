"""Which tab of a shared document writes a cell's output."""

import json
import time

import pytest
from waiting import eventually

from jupyter_tpu.on_host.agent.protocol import messages
from jupyter_tpu.server.adoption import fillers
from jupyter_tpu.server.adoption.fillers import Fillers
from jupyter_tpu.server.adoption.remembered_requests import ExecuteRequest


def request_of(id: str, client: str) -> ExecuteRequest:
    header = json.dumps({"msg_id": id, "session": client}).encode()
    return ExecuteRequest([b"a", messages.DELIMITER, b"", header, b"{}", b"{}", b"{}"])


@pytest.fixture
def request_of_a() -> ExecuteRequest:
    return request_of("r", "a")


async def test_a_writer_that_comes_back_in_time_stays_it_and_is_replaced_when_it_has_gone(
    request_of_a, monkeypatch
):
    monkeypatch.setattr(fillers, "CLOSED_SECONDS", 0.05)
    monkeypatch.setattr(fillers, "BROKEN_SECONDS", 3600.0)
    chosen: list[str] = []
    writers = Fillers(lambda request, client: request.set_filler(client))
    request_of_a.claimed = True
    for client in "abc":
        writers.connected(client)
    for client in "bc":
        writers.ask(request_of_a, client, lambda client=client: chosen.append(client))
    writers.disconnected("a", closed=False)  # its laptop lost the network
    writers.connected("a")
    assert (chosen, request_of_a.filler) == ([], "a")
    writers.disconnected("a", closed=True)  # its tab was closed
    await eventually(lambda: chosen)
    assert (chosen, request_of_a.filler, request_of_a.former_fillers) == (["b"], "b", {"a"})
    writers.connected("a")
    writers.ask(request_of_a, "a", lambda: chosen.append("a"))
    writers.disconnected("c", closed=True)
    writers.disconnected("b", closed=True)
    await eventually(lambda: len(chosen) == 2)
    assert (chosen, request_of_a.former_fillers) == (["b", "a"], {"b"})


async def test_what_a_client_with_a_document_of_its_own_ran_is_written_by_the_first_that_asks(
    request_of_a,
):
    chosen: list[str] = []
    writers = Fillers(lambda request, client: request.set_filler(client))
    for client in "abc":
        writers.connected(client)
    request_of_a.set_filler("")
    request_of_a.read_at = time.monotonic()  # it has ended
    for client in "bc":
        writers.ask(request_of_a, client, lambda client=client: chosen.append(client))
    assert (chosen, request_of_a.filler) == (["b"], "b")


async def test_what_a_writer_has_written_to_its_end_is_not_written_again(request_of_a, monkeypatch):
    monkeypatch.setattr(fillers, "CLOSED_SECONDS", 0.0)
    chosen: list[str] = []
    writers = Fillers(lambda request, client: request.set_filler(client))
    writers.connected("a")
    request_of_a.read_at = time.monotonic() - 2 * fillers.WRITTEN_SECONDS
    writers.disconnected("a", closed=True)
    writers.connected("b")
    writers.ask(request_of_a, "b", lambda: chosen.append("b"))
    assert chosen == []
    # Who waited for that is not remembered when the next one asks.
    other = request_of("next", "b")
    writers.ask(other, "b", lambda: None)
    assert "r" not in writers._waiting
    # It read the end just before it was closed: it may not have written all.
    request_of_a.read_at = time.monotonic()
    writers.ask(request_of_a, "b", lambda: chosen.append("b"))
    assert chosen == ["b"]


async def test_who_took_over_and_left_before_it_had_all_again_is_replaced(
    request_of_a, monkeypatch
):
    monkeypatch.setattr(fillers, "CLOSED_SECONDS", 0.0)
    monkeypatch.setattr(fillers, "WRITTEN_SECONDS", 0.0)
    chosen: list[str] = []
    writers = Fillers(lambda request, client: request.set_filler(client))
    writers.connected("a")
    writers.disconnected("a", closed=True)
    writers.ask(request_of_a, "b", lambda: chosen.append("b"))
    request_of_a.read_at = time.monotonic()  # it has cleared the cell, and not written it
    writers.connected("b")
    writers.disconnected("b", closed=True)
    writers.ask(request_of_a, "c", lambda: chosen.append("c"))
    assert chosen == ["b", "c"]
    writers.connected("c")
    request_of_a.repeated_at = time.monotonic()
    writers.disconnected("c", closed=True)
    writers.ask(request_of_a, "a", lambda: chosen.append("a"))
    assert chosen == ["b", "c"]


async def test_after_a_restart_a_writer_is_replaced_that_is_there_but_does_not_ask(
    request_of_a, monkeypatch
):
    monkeypatch.setattr(fillers, "BROKEN_SECONDS", 0.2)
    chosen: list[str] = []
    writers = Fillers(lambda request, client: request.set_filler(client))
    for client in "abc":
        writers.connected(client)
    # Its page has the server's new document: it writes again, and no one else does.
    writers.ask(request_of_a, "a", lambda: chosen.append("a"))
    writers.ask(request_of_a, "b", lambda: chosen.append("b"))
    assert chosen == ["a"]
    # The page never gets that document.
    request_of_a.claimed = False
    writers.ask(request_of_a, "c", lambda: chosen.append("c"))
    await eventually(lambda: len(chosen) > 1)
    assert (chosen, request_of_a.filler) == (["a", "b"], "b")
