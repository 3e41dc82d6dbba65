"""What the agents' token reaches in a real server, and what it does not."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
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


def test_every_route_is_decided_on_and_what_changes_limits_is_for_people():
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
    person, agent, jp_fetch, new_name
):
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
    """The rules of all handlers, Jupyter's and those of its extensions."""
    for rule in router.rules:
        if hasattr(rule.target, "rules"):
            yield from _rules(rule.target)
        elif isinstance(rule.target, type) and hasattr(rule.matcher, "regex"):
            yield rule


async def test_the_agents_token_opens_nothing_else_of_the_server(
    person, agent, jp_fetch, jp_serverapp, jp_base_url
):
    """No kernel is started with it, no cell, file or terminal seen, no program compiled."""
    await person("GET", "openapi.json")  # our handlers are there from the first request on
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


async def check_files(
    person: Client, agent: Client, tpu: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an agent copies between its TPU and this computer: of the folder, and nothing hidden."""

    async def answer(path: str, **body: Any) -> tuple[str, str]:
        """The reason and message of a refusal, at once or in the end; empty if it is copied."""
        status, operation = await agent("POST", f"tpus/{tpu}/{path}", body)
        if status == 202:
            operation = (await agent.done(operation["id"]))["problem"] or {}
        return operation.get("reason", ""), operation.get("message", "")

    home = folder.parent / "home"
    for name in (".bashrc", ".ssh/id_ed25519"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine")
    (folder / "note.txt").write_text("a note")
    (folder / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    assert await answer("copies", sources=[f"{folder}/note.txt"]) == ("", "")
    for body in (
        {"sources": [f"{home}/.ssh/id_ed25519"]},
        {"sources": [f"{folder}/link/.ssh/id_ed25519"], "agents_folder": "/"},
        {"sources": ["note.txt"], "download": True, "destination": f"{home}/.bashrc"},
        {"sources": ["note.txt"], "download": True, "destination": f"{folder}/link/.bashrc"},
        {"sources": ["note.txt"], "download": True, "destination": ""},
        {"sources": ["note.txt"], "download": True, "destination": f"{folder}/.env"},
    ):
        reason, message = await answer("copies", **body, overwrite=True)
        assert reason == "PERMISSION", body
        assert message.startswith("A coding agent may not")
    for body in ({"folder": str(home)}, {"folder": f"{folder}/link", "pull": True}):
        assert (await answer("sync", **body))[0] == "PERMISSION", body
    (folder / "back.txt").symlink_to(home / ".bashrc")
    back = {"sources": ["note.txt"], "download": True, "destination": f"{folder}/back.txt"}
    assert (await answer("copies", **back, overwrite=True))[0] == "PERMISSION"
    assert (home / ".bashrc").read_text() == "mine"
    # A server that an editor started runs in the home folder: a person has to choose one.
    monkeypatch.setenv("HOME", str(folder))
    reason, message = await answer("copies", sources=[f"{folder}/note.txt"])
    assert (reason, message.split(". ")[0]) == ("PERMISSION", "Coding agents may copy no files yet")
    project = folder / "project"
    project.mkdir()
    (project / "note.txt").write_text("another")
    for chosen in (folder, folder.parent, home / ".ssh"):
        body = {"who": "agent", "folder": str(chosen)}
        assert (await person("POST", "budgets", body))[0] == 400
    status, overview = await person("POST", "budgets", {"who": "agent", "folder": str(project)})
    assert (status, overview["budgets"][0]["budget"]["day"]) == (201, 2)
    assert await answer("copies", sources=[f"{project}/note.txt"], overwrite=True) == ("", "")
    assert (await answer("copies", sources=[f"{folder}/note.txt"]))[0] == "PERMISSION"


SHOW = {"command": ["sh", "-c", 'printf "%s" "$HF_TOKEN" | rev']}


async def printed_token(client: Client, tpu: str, **fields: str) -> str:
    """What a program of the client reads of HF_TOKEN, reversed: it is not masked then."""
    return await printed(client, tpu, **SHOW, **fields)


async def printed(client: Client, tpu: str, **request: Any) -> str:
    """What a run prints on stdout and stderr."""
    status, run = await client("POST", f"tpus/{tpu}/runs", request)
    assert status == 201, run

    async def ended() -> Any:
        _, output = await client("GET", f"tpus/{tpu}/runs/{run['id']}/output")
        return output if output["ended"] else None

    parts = (await eventually(ended, 60))["output"]
    return b"".join(base64.b64decode(part["data"]) for part in parts).decode().strip()


async def printed_token_of_job(client: Client, tpu: str) -> str:
    status, job = await client("POST", f"tpus/{tpu}/jobs", {**SHOW, "name": "show"})
    assert status == 201, job

    async def ended() -> Any:
        _, now = await client("GET", f"tpus/{tpu}/jobs/{job['id']}")
        return now["state"] == "ended"

    await eventually(ended, 60)
    _, log = await client("GET", f"tpus/{tpu}/jobs/{job['id']}/log")
    return "".join(line["text"] for line in log["lines"])


async def test_an_agent_runs_commands_on_a_persons_tpu_only_where_that_is_allowed(
    person, agent, new_name, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert (await person("POST", "tokens", {"names": ["HF_TOKEN"]}))[0] == 201
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
        assert "was not created by a coding agent" in answer["message"]
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
    # A person's program gets the tokens, an agent's does not: it could print them in any form.
    assert await printed_token(person, others) == "terces_fh"
    assert await printed_token(agent, others) == ""
    assert await printed_token(agent, others, who="ana") == ""
    assert (await agent("POST", "tokens", {"names": ["HF_TOKEN"], "agents": True}))[0] == 403
    status, answer = await agent("POST", f"tpus/{others}/connect", {"then_run": "env | rev"})
    assert (status, answer["reason"]) == (403, "PERMISSION"), answer
    status, answer = await agent("DELETE", f"tpus/{others}")
    assert (status, answer["reason"]) == (403, "PERMISSION")

    status, tpu = await person("POST", f"tpus/{others}/agents", {"allowed": False})
    assert (status, tpu["agents_may_use"]) == (200, False)
    status, _ = await agent("POST", f"tpus/{others}/runs", command)
    assert status == 403


async def test_an_agent_neither_ends_its_guard_nor_plans_what_reaches_further_than_itstpu_request(
    person, agent, new_name, faults, monkeypatch, jp_root_dir
):
    folder = jp_root_dir
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
    # On its TPU it reads the variables of all programs, so nobody's program gets the tokens there.
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    await person("POST", "tokens", {"names": ["HF_TOKEN"]})
    assert await printed_token(agent, own) == ""
    assert await printed_token_of_job(agent, own) == ""
    assert await printed_token(person, own) == ""
    await person("POST", "tokens", {"names": ["HF_TOKEN"], "agents": True})
    assert await printed_token(agent, own) == "terces_fh"
    assert await printed_token_of_job(agent, own) == "terces_fh"
    await check_files(person, agent, own, folder, monkeypatch)
    # What a person has begun by a plan is not an agent's.
    _, plan = await person("POST", "plans", {"tpu": tpu_request(new_name()), "max_cost": 1})
    _, begun = await person("POST", f"plans/{plan['id']}/create", {"approve": True})
    status, answer = await agent("DELETE", f"operations/{begun['operation']}")
    assert (status, answer["reason"]) == (403, "PERMISSION"), answer
    await person.done(begun["operation"])
    # From its own TPU it logs in to no other one: keys of people and of other TPUs are not there.
    _, other = await person("GET", f"tpus/{plan['name']}")
    (host,) = other["hosts"]
    command = (
        "grep -l PRIVATE ~/.ssh/* | grep -v jupyter_tpu_pod; echo agent:$SSH_AUTH_SOCK; "
        "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o ConnectTimeout=20 "
        f"{host['internal_address']} echo in; echo $?"
    )
    shown = (await printed(agent, own, command=["sh", "-c", command])).splitlines()
    assert not [line for line in shown if line.startswith("/") or line == "in"]
    assert "agent:" in shown
    assert "255" in shown  # what ssh says itself may come before or after it
    assert any("Permission denied" in line for line in shown), shown
