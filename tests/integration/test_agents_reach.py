"""What the agents' token reaches in a real server, and what it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from agent_client import Client, tpu_request
from tornado.httpclient import HTTPClientError
from waiting import eventually

from jupyter_tpu.agent_token import agent_token
from jupyter_tpu.cloud import NodeOptions
from jupyter_tpu.fleet.agents.access import FREE, OF_OWN_OPERATION, ON_OPEN_TPU, ON_OWN_TPU
from jupyter_tpu.fleet.routes import ROUTES
from jupyter_tpu.server.handlers import RouteHandler

pytest_plugins = ["pytest_jupyter.jupyter_server"]

ZONE = "us-west4-a"
#: What Jupyter Server shows without a login.
OPEN_TO_ALL = {("GET", f"{name}Handler") for name in ("APIVersion", "LoginForm", "Logout")}


@pytest.fixture
def jp_server_config(budgets_server: dict[str, Any]) -> dict[str, Any]:
    return budgets_server


def test_every_route_is_decided_on_and_what_changes_limits_is_for_people() -> None:
    calls = {route.call for route in ROUTES}
    for_agents = FREE | ON_OWN_TPU.keys() | ON_OPEN_TPU.keys() | OF_OWN_OPERATION
    assert for_agents <= calls
    for_people = calls - for_agents
    assert for_people >= {
        *("create", "start", "hunts.start", "queued.create", "queued.delete"),
        *("budgets.set", "budgets.remove", "budgets.allow", "plans.answer"),
        *("grants.add", "grants.remove", "prices.refresh"),
        *("guards.set", "guards.keep", "guards.remove"),
        *("tokens.pass_on", "usage.adopt", "networks.set_up", "ssh_key.add"),
    }
    writing = {route.call for route in ROUTES if route.method != "GET"}
    assert FREE & writing == {
        *("quote", "hunts.quote", "plans.make", "plans.carry_out", "doctor.preflight"),
    }


async def test_no_other_token_passes_as_an_agents_nor_an_agents_as_a_persons(
    person: Client, agent: Client, jp_fetch: Callable[..., Any], new_name: Callable[[], str]
) -> None:
    for wrong in ("wrong", agent_token() + "x", agent_token()[:-1]):
        status, answer = await Client(jp_fetch, wrong)("GET", "tpus")
        assert (status, answer["reason"]) == (403, "PERMISSION")
    # What a request says of itself is not believed.
    _, plan = await person("POST", "plans", {"who": "agent", "tpu": tpu_request(new_name())})
    assert plan["who"] != "agent"
    _, plan = await agent("POST", "plans", {"who": "somebody", "tpu": tpu_request(new_name())})
    assert plan["who"] == "agent"
    for method, path, body in (
        ("POST", "budgets", {"who": "agent", "day": 1000}),
        ("DELETE", "budgets/agent", None),
        ("POST", f"plans/{plan['id']}/answer", {"approve": True}),
        ("POST", "tpus", {**tpu_request(new_name()), "confirm_price": True}),
        ("POST", "grants", {"name": "g", "types": ["v5e"], "zones": [ZONE],
                            "tiers": ["on-demand"], "chips": 9}),
    ):  # fmt: skip
        status, answer = await agent(method, path, body)
        assert (status, answer["reason"]) == (403, "PERMISSION"), (path, answer)
        assert "Only a person" in answer["message"]


def _rules(router: Any) -> Iterator[Any]:
    """Of all handlers, Jupyter's and those of its extensions."""
    for rule in router.rules:
        if hasattr(rule.target, "rules"):
            yield from _rules(rule.target)
        elif isinstance(rule.target, type) and hasattr(rule.matcher, "regex"):
            yield rule


async def test_the_agents_token_opens_nothing_else_of_the_server(
    agent: Client, jp_fetch: Callable[..., Any], jp_serverapp: Any, jp_base_url: str
) -> None:
    """No kernel is started with it, no cell, file or terminal seen, no program compiled."""
    rules = list(_rules(jp_serverapp.web_app.default_router))
    assert {"KernelWebsocketHandler", "CompileHandler"} <= {rule.target.__name__ for rule in rules}
    opened = set()
    for rule in rules:
        pattern = rule.matcher.regex.pattern
        if issubclass(rule.target, RouteHandler) or not pattern.startswith(jp_base_url):
            continue
        path = re.sub(r"\(\?P<\w+>[^()]*\)|\([^()]*\)", "x", pattern).strip("^$")
        parts = re.sub(r"[^\w/.-]", "", path.removeprefix(jp_base_url)).strip("/").split("/")
        for method in ("GET", "POST"):
            headers = {"Authorization": f"token {agent_token()}"}
            options: dict[str, Any] = {"headers": headers, "follow_redirects": False}
            if method == "POST":
                options["body"] = "{}"
            try:
                await jp_fetch(*parts, method=method, **options)
            except HTTPClientError as error:
                if error.code in (302, 403, 404, 405):  # 302: to another page, or the login
                    continue
            opened.add((method, rule.target.__name__))
    assert opened <= OPEN_TO_ALL


async def test_an_agent_runs_commands_on_a_persons_tpu_only_where_that_is_allowed(
    person: Client, agent: Client, new_name: Callable[[], str]
) -> None:
    others = new_name()
    _, operation = await person("POST", "tpus", tpu_request(others))
    assert (await person.done(operation["id"]))["state"] == "done"
    command = {"command": ["echo", "hello"]}
    for path, body in (
        ("connect", {}),
        ("runs", command),
        ("jobs", {**command, "name": "hello"}),
        ("copies", {"sources": ["."], "destination": ""}),
    ):
        status, answer = await agent("POST", f"tpus/{others}/{path}", body)
        assert (status, answer["reason"]) == (403, "PERMISSION"), path
        assert "was not created by an agent" in answer["message"]
        assert answer["hint"].endswith(f"jupyter tpu budget allow {others}")
    status, answer = await agent("POST", f"tpus/{others}/agents", {"allowed": True})
    assert (status, answer["reason"]) == (403, "PERMISSION")

    # Nor what only reads, but starts programs there or shows what the person's have written.
    command = {"command": ["echo", "secret"]}
    _, run = await person("POST", f"tpus/{others}/runs", command)
    _, job = await person("POST", f"tpus/{others}/jobs", {**command, "name": "secret"})
    for method, path in (
        ("GET", f"runs/{run['id']}/output"),
        ("GET", f"jobs/{job['id']}/log"),
        ("GET", "environments/default/kernelspec"),
        ("GET", "environments/default/lock"),
        ("GET", "pythons"),
        ("GET", "memory"),
        ("POST", "doctor"),
    ):
        status, answer = await agent(method, f"tpus/{others}/{path}")
        assert (status, answer["reason"]) == (403, "PERMISSION"), path

    status, tpu = await person("POST", f"tpus/{others}/agents", {"allowed": True})
    assert (status, tpu["agents_may_use"]) == (200, True)
    status, answer = await agent("GET", f"tpus/{others}/environments/default/kernelspec")
    assert (status, answer["reason"]) == (404, "NOT_FOUND")
    status, answer = await agent("GET", f"tpus/{others}/runs/{run['id']}/output")
    assert status == 200, answer
    command = {"command": ["echo", "hello"]}
    status, run = await agent("POST", f"tpus/{others}/runs", command)
    assert status == 201, run
    status, answer = await agent("DELETE", f"tpus/{others}")
    assert (status, answer["reason"]) == (403, "PERMISSION")

    status, tpu = await person("POST", f"tpus/{others}/agents", {"allowed": False})
    assert (status, tpu["agents_may_use"]) == (200, False)
    status, _ = await agent("POST", f"tpus/{others}/runs", command)
    assert status == 403


async def test_an_agent_neither_ends_its_guard_nor_plans_what_reaches_further_than_itstpu_request(
    person: Client, agent: Client, new_name: Callable[[], str], faults: Callable[..., Any]
) -> None:
    await person("POST", "budgets", {"who": "agent", "day": 2})
    own = new_name()
    for options in (
        {"service_account": "owner@p.iam.gserviceaccount.com"},
        {"scopes": ["cloud-platform"]},
        {"data_disks": [{"source": "data"}]},
        {"metadata": {"ssh-keys": "mallory:ssh-ed25519 AAAA"}},
        {"tags": ["open"]},
        {"labels": {"jupyter-tpu-once": "v5litepod-1___on-demand"}},
        {"labels": {"owner": "ana_example-com"}},
        {"network": "inside"},
        {"reservation": "paid"},
    ):
        tpu = {"options": options} if hasattr(NodeOptions(), next(iter(options))) else options
        status, answer = await agent.plan(own, tpu=tpu)
        assert (status, answer["reason"]) == (403, "PERMISSION"), answer
        assert next(iter(options)) in answer["message"]
    status, answer = await agent.plan(own, tpu={"disk_gb": 65536, "api": "compute"})
    assert (status, answer["reason"]) == (403, "PERMISSION"), answer
    _, plan = await agent.plan(own, max_cost=1.0)
    _, begun = await agent("POST", f"plans/{plan['id']}/create")
    assert (await agent.done(begun["operation"]))["state"] == "done"

    async def guard_operation() -> Any:
        _, operations = await agent("GET", "operations")
        return next(
            (one for one in operations if (one["kind"], one["tpu"]) == ("guard", own)), None
        )

    setting = await eventually(guard_operation, 60)
    status, answer = await agent("DELETE", f"operations/{setting['id']}")
    assert (status, answer["reason"]) == (403, "PERMISSION"), answer
    # What a person has begun by a plan is not an agent's.
    _, plan = await person("POST", "plans", {"tpu": tpu_request(new_name()), "max_cost": 1})
    _, begun = await person("POST", f"plans/{plan['id']}/create", {"approve": True})
    status, answer = await agent("DELETE", f"operations/{begun['operation']}")
    assert (status, answer["reason"]) == (403, "PERMISSION"), answer
    await person.done(begun["operation"])
