"""Which requests keep a kernel busy, told from its status messages."""

from __future__ import annotations

import json

import pytest

from jupyter_tpu.agent.protocol import messages
from jupyter_tpu.agent.protocol.activity import KernelActivity

SIGNER = messages.MessageSigner("", "kernel")


def status(state: str, request: object = None) -> list[bytes]:
    parent = json.dumps({"msg_id": request} if request else {}).encode()
    return SIGNER.message("status", {"execution_state": state}, parent=parent, idents=[b"topic"])


def test_a_kernel_is_busy_until_its_last_request_has_ended():
    activity = KernelActivity()
    for message in (status("starting"), status("busy", "cell"), status("busy", "debugger")):
        activity.observe(message)
    assert json.loads(activity.latest) == {"msg_id": "debugger"}
    activity.observe(status("idle", "debugger"))
    assert (activity.state, list(activity.running)) == ("busy", ["cell"])
    noted = activity.observe(status("idle", "cell"))
    assert noted is not None
    assert (noted.request, noted.session) == ("cell", SIGNER.session)
    assert (activity.state, activity.latest) == ("idle", b"{}")


def test_a_kernel_that_starts_again_runs_nothing():
    activity = KernelActivity({"old": b'{"msg_id": "old"}'})
    activity.observe(status("starting"))
    assert (activity.state, activity.running) == ("starting", {})


@pytest.mark.parametrize(
    "message",
    [
        [b"no message"],
        SIGNER.message("stream", {"text": '"status"', "execution_state": "busy"}),
        SIGNER.message("status", b"[]"),
        SIGNER.message("status", {"execution_state": "busy"}, parent=b"no json"),
    ],
)
def test_other_and_broken_messages_change_nothing(message):
    activity = KernelActivity({"cell": b"{}"})
    assert activity.observe(message) is None
    assert list(activity.running) == ["cell"]
