"""Which requests keep a kernel busy, told from its status messages."""

import json

import pytest

from jupyter_tpu.on_host.agent.keeper.requests import Requests
from jupyter_tpu.on_host.agent.protocol import messages
from jupyter_tpu.on_host.agent.protocol.activity import KernelActivity
from jupyter_tpu.on_host.agent.protocol.events import SHELL

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


def test_cells_of_clients_that_use_one_id_are_all_answered_when_their_kernel_dies():
    requests = Requests("")
    cells = [SIGNER.message("execute_request", {"code": f"{n}"}) for n in range(3)]
    for n, cell in enumerate(cells):
        header = {**messages.decode_part(cell, messages.HEADER), "msg_id": "one", "date": str(n)}
        cell[messages.HEADER] = json.dumps(header).encode()
        requests.note_request(cell)
    requests.note_request([messages.DELIMITER, b"", b'["execute_request"]', b"{}", b"{}", b"{}"])
    reply = SIGNER.message("execute_reply", {}, parent=cells[0][messages.HEADER])
    requests.note_message(SHELL, reply, 0)
    requests.activity.observe(status("busy", "one"))
    answers = [
        (messages.decode_part(parts, messages.PARENT)["date"],
         messages.decode_part(parts, messages.CONTENT)["status"])
        for channel, parts in requests.answer_all("It is gone.", "")
        if channel == SHELL
    ]  # fmt: skip
    assert answers == [("1", "error"), ("2", "aborted")]
