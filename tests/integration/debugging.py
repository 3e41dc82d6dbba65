"""The debug adapter protocol as JupyterLab speaks it to a kernel, over control and iopub."""

from __future__ import annotations

from typing import Any

from local_kernels import Notebook


class Debugger:
    """A debugging client of one kernel."""

    def __init__(self, notebook: Notebook) -> None:
        self._client = notebook.client
        self._seq = 0

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The body of the answer to a request."""
        self._seq += 1
        content = {
            "type": "request",
            "seq": self._seq,
            "command": command,
            "arguments": arguments,
        }
        message = self._client.session.msg("debug_request", content)
        self._client.control_channel.send(message)
        while True:
            reply = self._client.get_control_msg(timeout=60)
            if reply["parent_header"]["msg_id"] == message["header"]["msg_id"]:
                assert reply["content"].get("success"), reply["content"]
                return reply["content"].get("body") or {}

    def begin(self) -> None:
        """What JupyterLab does when its button is pressed."""
        self.ask(
            "initialize",
            clientID="test",
            clientName="test",
            adapterID="",
            pathFormat="path",
            linesStartAt1=True,
            columnsStartAt1=True,
            supportsVariableType=True,
            supportsVariablePaging=True,
            supportsRunInTerminalRequest=True,
            locale="en",
        )
        self.ask("attach")

    def break_at(self, code: str, line: int) -> bool:
        """Sets a breakpoint in a cell; whether it can be one."""
        path = self.ask("dumpCell", code=code)["sourcePath"]
        [set_] = self.ask(
            "setBreakpoints",
            breakpoints=[{"line": line}],
            source={"path": path},
            sourceModified=False,
        )["breakpoints"]
        self.ask("configurationDone")
        return set_["verified"]

    def stopped(self) -> dict[str, Any]:
        """Waits for the kernel to stop, and gives the event's body."""
        while True:
            message = self._client.get_iopub_msg(timeout=60)
            if message["msg_type"] == "debug_event" and message["content"]["event"] == "stopped":
                return message["content"]["body"]

    def local_variables(self, thread: int) -> tuple[int, dict[str, str]]:
        """Where a stopped thread is (a line), and the variables it sees there."""
        frame = self.ask("stackTrace", threadId=thread)["stackFrames"][0]
        scope = self.ask("scopes", frameId=frame["id"])["scopes"][0]
        reference = scope["variablesReference"]
        variables = self.ask("variables", variablesReference=reference)["variables"]
        return frame["line"], {variable["name"]: variable["value"] for variable in variables}
