"""The guard's process: a rule that can't be read for a moment is not one that was removed."""

from pathlib import Path

import pytest

from jupyter_tpu.on_host.agent.daemon.guard_operations import GuardOperations
from jupyter_tpu.on_host.agent.daemon.guard_process import GuardProcess
from jupyter_tpu.on_host.agent.daemon.handlers import handlers
from jupyter_tpu.on_host.agent.guard import files
from jupyter_tpu.on_host.agent.guard.decision import Verdict
from jupyter_tpu.on_host.agent.protocol.requests import NoteClientStopRequest


async def test_a_rule_that_can_not_be_read_is_still_the_rule(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    guard, soon = GuardProcess("sources"), Verdict("watching", "time", 0.2, False)
    rule = {"number": "1", "sources": "sources", "keep": None}
    files.write(files.RULE, rule)
    Path(files.guard_path(files.RULE)).write_text("{")
    assert await guard._next_rule(rule, soon) == rule
    files.remove(files.RULE)
    assert await guard._next_rule(rule, soon) is None


@pytest.mark.parametrize(("told", "done"), [([], False), ([True], True), ([True, False], False)])
async def test_limits_that_a_client_acted_upon_do_not_count_after_the_next_start(
    tmp_path, monkeypatch, told, done
):
    monkeypatch.setenv("HOME", str(tmp_path))
    rule = {"number": "1", "sources": "sources", "keep": None, "action": "stop", "until": 1.0}
    files.write(files.RULE, rule)
    files.write(files.REPORT, {"number": "1", "boot": "before", "asked": False, "phase": "due"})
    operations = GuardOperations("sources")
    monkeypatch.setattr(operations, "_ensure_process", lambda: None)
    for stops in told:
        await handlers(operations)["client_stops"](NoteClientStopRequest(stops=stops))
    guard = GuardProcess("sources")
    decision = guard._resume(files.read(files.RULE) or {})
    assert guard._done is done
    assert (decision.rule.until is None) is done
