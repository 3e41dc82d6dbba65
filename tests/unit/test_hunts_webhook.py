"""The webhook that is told of the end of a hunt: a real HTTP server that refuses at first."""

import logging

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from jupyter_tpu.fleet.hunts import webhook


@pytest.mark.parametrize(
    ("statuses", "accepted", "asked"), [([503, 429, 200], True, 3), ([404], False, 1)]
)
async def test_it_is_tried_again_unless_it_is_refused_for_good(
    statuses, accepted, asked, monkeypatch
):
    monkeypatch.setattr(webhook, "PAUSE_SECONDS", (0.01, 0.01, 0.01))
    bodies = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.Response(status=statuses[len(bodies) - 1])

    app = web.Application()
    app.router.add_post("/secret", answer)
    async with TestServer(app) as server:
        assert await webhook.notify(str(server.make_url("/secret")), {"text": "hi"}) is accepted
    assert bodies == [{"text": "hi"}] * asked


async def test_what_does_not_answer_is_given_up_and_its_url_is_in_no_log(monkeypatch, caplog):
    monkeypatch.setattr(webhook, "PAUSE_SECONDS", (0.01,))
    logging.disable(logging.NOTSET)
    assert not await webhook.notify("http://127.0.0.1:9/secret", {})
    assert "ClientConnectorError" in caplog.text
    assert "secret" not in caplog.text


def test_only_https_or_this_computer_is_told(monkeypatch):
    for url, used in {
        "": "",
        "https://hooks.example.org/x": "https://hooks.example.org/x",
        "http://localhost:8000/x": "http://localhost:8000/x",
        "http://hooks.example.org/x": "",
        "file:///etc/passwd": "",
    }.items():
        monkeypatch.setenv(webhook.VARIABLE, url)
        assert webhook.configured_url() == used
