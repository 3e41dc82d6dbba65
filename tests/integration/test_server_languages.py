"""What the server says in the language that a client asks for: answers, errors, events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agent_client import Client

from jupyter_tpu.language import on_pages
from jupyter_tpu.server.events import KERNEL_REFUSED

pytest_plugins = ["pytest_jupyter.jupyter_server"]


def in_japanese() -> dict[str, dict[str, str]]:
    """What a request takes besides; `jp_fetch` adds its token to these headers."""
    return {"headers": {"Accept-Language": "ja, en;q=0.5"}}


@pytest.fixture
def jp_server_config(budgets_server: dict[str, Any]) -> dict[str, Any]:
    return budgets_server


@pytest.mark.parametrize("language", ["*", "en", "fr", "zh-TW"])
async def test_an_error_is_in_the_language_that_is_asked_for_and_else_in_english(
    language: str, person: Client
) -> None:
    english = await person("GET", "tpus/us-west4-a~gone")
    assert await person("GET", "tpus/us-west4-a~gone") == english
    asked = await person("GET", "tpus/us-west4-a~gone", headers={"Accept-Language": language})
    assert asked == english
    status, problem = await person("GET", "tpus/us-west4-a~gone", **in_japanese())
    translate = on_pages("ja_JP").translate
    expected = {name: translate(english[1][name]) for name in ("message", "hint")}
    assert (status, problem) == (404, english[1] | expected)
    assert "us-west4-a" in problem["message"]
    assert problem["message"] != english[1]["message"]
    # Also what is refused before anything is called, and what is no route.
    body = {"name": "x", "type": "v5litepod-4", "zone": 3}
    _, refused = await person("POST", "tpus", body, **in_japanese())
    _, plain = await person("POST", "tpus", body)
    assert refused["message"] == translate(plain["message"]) != plain["message"]
    assert refused["field"] == plain["field"]


async def test_answers_and_events_are_in_the_language_of_each_client(
    person: Client, jp_ws_fetch: Any, jp_serverapp: Any, name: str
) -> None:
    sockets = {
        language: await jp_ws_fetch("api", "events", "subscribe", params={"language": language})
        for language in ("", "ja", "fr")
    }
    again = await jp_ws_fetch("api", "events", "subscribe", params={"language": "ja"})
    body = {"name": name, "type": "v5litepod-4", "zone": "us-west4-a"}
    status, operation = await person("POST", "tpus", body)
    assert status == 202

    async def last_event(socket: Any) -> dict[str, Any]:
        while True:
            event = json.loads(await asyncio.wait_for(socket.read_message(), 60))
            done = event.get("operation") or {}
            if done.get("id") == operation["id"] and done["state"] == "done":
                return done  # type: ignore[no-any-return]

    english = await last_event(sockets[""])
    assert await last_event(sockets["fr"]) == english
    japanese = await last_event(sockets["ja"])
    assert await last_event(again) == japanese
    translate = on_pages("ja_JP").translate
    assert english["log"]
    assert japanese["log"] == list(map(translate, english["log"])) != english["log"]
    titles = [step["title"] for step in english["steps"]]
    assert [step["title"] for step in japanese["steps"]] == list(map(translate, titles)) != titles
    assert japanese["kind"] == english["kind"]
    # The same by requests, also where clients share the work of a list.
    path = f"operations/{operation['id']}"
    assert (await person("GET", path))[1]["log"] == english["log"]
    assert (await person("GET", path, **in_japanese()))[1]["log"] == japanese["log"]
    (_, here), (_, there) = await asyncio.gather(
        person("GET", "operations"), person("GET", "operations", **in_japanese())
    )
    logs = [{one["id"]: one["log"] for one in listed}[operation["id"]] for listed in (here, there)]
    assert logs == [english["log"], japanese["log"]]
    # Why a kernel was not started, which is said to those who do not see the answer.
    refused = {"message": "The server is stopping.", "reason": "INTERRUPTED", "hint": ""}
    jp_serverapp.event_logger.emit(schema_id=KERNEL_REFUSED, data=refused)
    for language in ("", "ja"):
        event: dict[str, Any] = {}
        while event.get("schema_id") != KERNEL_REFUSED:
            message = await asyncio.wait_for(sockets[language].read_message(), 60)
            event = json.loads(message)
        said = translate(refused["message"]) if language else refused["message"]
        assert (event["message"], event["reason"]) == (said, "INTERRUPTED")
