"""What the server remembers of the requests that a kernel was sent."""

import json
from typing import Any

from jupyter_tpu.on_host.agent.protocol import messages
from jupyter_tpu.on_host.agent.protocol.events import IOPUB
from jupyter_tpu.server.adoption.remembered_requests import ExecuteRequest, RememberedRequests


def message(kind: str, parent: str, content: dict[str, Any], msg_id: str = "m") -> list[bytes]:
    fields = {"msg_id": msg_id, "msg_type": kind, "session": "s"}, {"msg_id": parent}, {}, content
    return [b"topic", messages.DELIMITER, b"", *(json.dumps(one).encode() for one in fields)]


def test_the_lines_that_a_request_has_printed_are_counted_for_it_alone():
    requests = RememberedRequests()
    for request_id in ("r", "other"):
        requests.add(ExecuteRequest(message("execute_request", "", {"code": "1"}, request_id)), 1)
    request, other = requests
    sent = [
        message("status", "r", {"execution_state": "busy"}),
        message("stream", "r", {"name": "stdout", "text": "row 0\nrow 1\nthe rest of"}),
        message("stream", "r", {"name": "stderr", "text": " row 2\n"}),
        message("stream", "unknown", {"name": "stdout", "text": "of a thread\n"}),
        message("display_data", "r", {"data": {"text/plain": "not\nprinted\n"}}),
    ]
    for number, one in enumerate(sent):
        requests.observe(IOPUB, one, number)
    assert (request.lines, other.lines) == (3, 0)
