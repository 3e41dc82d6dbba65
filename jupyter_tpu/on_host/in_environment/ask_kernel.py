"""A client of a kernel, which has it run code in a subshell, beside its cells."""

import json
import sys
import time
from queue import Empty


def main():
    from jupyter_client import BlockingKernelClient

    request = json.load(sys.stdin)
    client = BlockingKernelClient(connection_file=request["connection"])
    client.load_connection_file()
    # No iopub: its messages are for the notebook.
    client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=True)
    created = send(client, client.control_channel, "create_subshell_request", {}, 10)
    if not created or created.get("status") != "ok":
        emit(problem="no subshells")
        return
    subshell = created["subshell_id"]
    try:
        ask(client, request, subshell)
    finally:
        content = {"subshell_id": subshell}
        send(client, client.control_channel, "delete_subshell_request", content, 10)


def ask(client, request, subshell):
    expression = "(lambda d: exec(%r, d) or __import__('json').dumps(d['answer']))(%r)" % (
        request["code"],
        request["variables"],
    )
    content = {
        "code": "",
        "silent": True,
        "store_history": False,
        "allow_stdin": False,
        "stop_on_error": False,
        "user_expressions": {"it": expression},
    }
    channel, timeout = client.shell_channel, request["timeout"]
    reply = send(client, channel, "execute_request", content, timeout, subshell_id=subshell)
    result = (reply or {}).get("user_expressions", {}).get("it", {})
    if result.get("status") == "ok":
        emit(answer=result["data"]["text/plain"])
    else:
        emit(problem=result.get("evalue") or "the kernel did not answer")


def send(client, channel, message_type, content, timeout, **header):
    """The content of the reply; None if there is none in *timeout* seconds."""
    request = client.session.msg(message_type, content)
    request["header"].update(header)
    channel.send(request)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            message = channel.get_msg(timeout=max(0.05, deadline - time.monotonic()))
        except Empty:
            break
        if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
            return message["content"]
    return None


def emit(**payload):
    print("profiled " + json.dumps(payload), flush=True)


if __name__ == "__main__":
    main()
