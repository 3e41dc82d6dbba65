"""A Jupyter server that is stopped, killed and started again, and a plain client of its kernels."""

from __future__ import annotations

import base64
import contextlib
import copy
import io
import itertools
import json
import os
import secrets
import signal
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from bare_server import BARE
from forked import ForkedProcess, forks
from ports import free_port
from waiting import until
from websocket import (
    ABNF,
    WebSocket,
    WebSocketConnectionClosedException,
    WebSocketException,
    WebSocketTimeoutException,
    create_connection,
)

LIMIT = 240.0  # seconds for an operation; the first environment downloads JAX
#: The parts of a message on a websocket, in order.
PARTS = "header", "parent_header", "metadata", "content"
FOLDERS = {
    "JUPYTER_TPU_DATA_DIR": "tpu",
    "JUPYTER_DATA_DIR": "jupyter",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTER_CONFIG_DIR": "config",
    "IPYTHONDIR": "ipython",
    "CLOUDSDK_CONFIG": "gcloud",
}


class Server:
    """One server's folders, port and token; the process comes and goes.

    Parameters
    ----------
    folder: for its files; the same folder is the same user.
    environment: variables that it gets besides.
    options: of its command line.
    module: what Python runs.
    python: which Python.
    forked: whether its imports are another process's (`forked`), which makes its start cheap.
    """

    def __init__(
        self,
        folder: Path,
        environment: dict[str, str],
        *options: str,
        module: str = "jupyter_server",
        python: str = sys.executable,
        forked: bool = True,
    ) -> None:
        self.folder = folder
        self.root = folder / "root"
        self.log = folder / "server.log"
        self.options = options
        self.module = module
        self.python = python
        self.forked = forked and (module, python) == ("jupyter_server", sys.executable)
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self.environment = {**os.environ, **environment}
        for variable, name in FOLDERS.items():
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            self.environment[variable] = str(folder / name)
        self.root.mkdir(exist_ok=True)

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def another(self) -> Server:
        """A second server of the same user in the same folder."""
        other = copy.copy(self)
        other.port, other.process = free_port(), None
        return other

    def start(self, *, wait: bool = True) -> None:
        """Starts the process; *wait* until it answers."""
        options = [f"--ServerApp.port={self.port}", "--ServerApp.ip=127.0.0.1"]
        options += ["--ServerApp.port_retries=0", "--allow-root", "--ServerApp.open_browser=False"]
        options += [f"--ServerApp.root_dir={self.root}", *self.options]
        options += BARE if self.module == "jupyter_server" else []
        environment = {**self.environment, "JUPYTER_TOKEN": self.token}
        with self.log.open("ab") as log:
            if self.forked:
                self.process = forks().start(
                    self.module, options, env=environment, log=log.fileno()
                )
            else:
                self.process = subprocess.Popen(
                    [self.python, "-m", self.module, *options],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        if wait:
            try:
                until(lambda: self.answers(), why=self.log.read_text)
            except BaseException:  # no fixture stops it then
                self.kill()
                raise

    def answers(self) -> bool:
        """Whether all of its kernels are there, which may be a moment after its port."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            self.request("GET", "/api/kernels")
        except OSError:
            return False
        return True

    def stop(self, number: int = signal.SIGTERM, times: int = 1) -> None:
        """Ends it by a signal, and waits for its end."""
        process = self.process
        if process is None:
            return
        for _ in range(times):
            process.send_signal(number)
            time.sleep(0.1 if times > 1 else 0)  # two at the same time are one
        try:
            process.wait(60)
        finally:
            process.kill()  # one that hangs is not also every later test's
            process.wait()
            self.process = None

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            text = error.read()
            readable = urllib.error.HTTPError(
                error.url, error.code, error.msg, error.headers, io.BytesIO(text)
            )
            readable.add_note(text.decode())
            raise readable from None

    def tpu(self, method: str, path: str, body: Any = None) -> Any:
        return self.request(method, f"/jupyter-tpu/v1/{path}", body)

    def connect_tpu(self, name: str) -> str:
        """Creates and connects a TPU; returns the name of its kernelspec."""
        body = {"name": name, "type": "v5litepod-4", "zone": "us-west4-a", "connect": {}}
        self.finish(self.tpu("POST", "tpus", body))
        for connecting in self.tpu("GET", f"tpus/{name}")["operations"]:
            self.finish(self.tpu("GET", f"operations/{connecting}"))
        return self.kernelspec(name)

    def kernelspec(self, tpu: str) -> str:
        """That of the TPU's only environment."""
        [environment] = self.tpu("GET", f"tpus/{tpu}/environments")
        return environment["kernelspec"]

    def start_session(self, spec: str, path: str = "work.ipynb") -> dict[str, Any]:
        """A notebook's session with a kernel of *spec*."""
        body = {"path": path, "name": path, "type": "notebook", "kernel": {"name": spec}}
        return self.request("POST", "/api/sessions", body)

    def end_sessions(self) -> None:
        """Ends them and all kernels, which needs a running server."""
        if self.process is None:
            self.start()
        for kind in ("sessions", "kernels"):
            for item in self.request("GET", f"/api/{kind}"):
                self.request("DELETE", f"/api/{kind}/{item['id']}")

    def delete_tpu(self, name: str) -> None:
        """With its kernels and jobs, which needs a running server."""
        if self.process is None:
            self.start()
        self.finish(self.tpu("DELETE", f"tpus/{name}?end_kernels=true&end_jobs=true"))

    @contextlib.contextmanager
    def tpu_of_two_hosts(self, name: str, *, connect: bool = True) -> Iterator[dict[str, Any]]:
        """Runs it, and makes a TPU; gives the operation that did so last. Then both end."""
        with self:
            body = {"name": name, "type": "v4-16", "zone": "us-central2-b"}
            done = self.finish(self.tpu("POST", "tpus", body))
            if connect:
                done = self.finish(self.tpu("POST", f"tpus/{name}/connect", {}))
            yield done
            self.delete_tpu(name)

    def cli(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """``jupyter tpu …`` on its machine, with its token."""
        environment = {**self.environment, "JUPYTER_TOKEN": self.token}
        return forks().run("jupyter_tpu.cli", words, env=environment, timeout=LIMIT, cwd=cwd)

    @contextlib.contextmanager
    def as_this_process(self) -> Iterator[None]:
        """Kernels and commands of this process use its folders, too."""
        names = ("JUPYTER_TPU_EMULATOR", *FOLDERS)
        with mock.patch.dict(os.environ, {name: self.environment[name] for name in names}):
            yield

    def finish(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Waits for an operation and gives its last state."""

        def done() -> bool:
            nonlocal operation
            operation = self.tpu("GET", f"operations/{operation['id']}")
            return operation["state"] != "running"

        until(done, LIMIT, lambda: str(operation))
        assert operation["state"] == "done", operation
        return operation

    def on_host(self, tpu: str, host: int, *command: str, check: bool = True) -> str:
        """What a command prints on a host, to stdout and stderr; *check* that it succeeds."""
        run = self.tpu("POST", f"tpus/{tpu}/runs", {"command": command, "hosts": str(host)})
        printed, start = b"", 0
        while True:
            answer = self.tpu("GET", f"tpus/{tpu}/runs/{run['id']}/output?from={start}")
            printed += b"".join(base64.b64decode(part["data"]) for part in answer["output"])
            if answer["ended"]:
                assert not check or answer["run"]["code"] == 0, printed.decode()
                return printed.decode()
            start = answer["next"]

    def kernel(self, kernel_id: str) -> dict[str, Any]:
        return self.request("GET", f"/api/kernels/{kernel_id}")


class Client:
    """A client of one kernel over the server's websocket: legacy protocol, no counting.

    It answers pings, as every websocket does, and keeps its session id when it connects again.
    """

    #: What a page that counts adds to the address, and how it speaks.
    counting = ""
    protocols: tuple[str, ...] = ()

    def __init__(self, server: Server, kernel_id: str) -> None:
        self.server = server
        self.kernel_id = kernel_id
        self.session = uuid.uuid4().hex
        self.messages: list[dict[str, Any]] = []
        self.socket: WebSocket | None = None

    def connect(self, limit: float = 30.0) -> None:
        url = self.server.url.replace("http", "ws")
        url += f"/api/kernels/{self.kernel_id}/channels?session_id={self.session}{self.counting}"
        header = [f"Authorization: token {self.server.token}"]

        def connected() -> bool:
            try:
                self.socket = create_connection(
                    url, header=header, timeout=60, subprotocols=list(self.protocols)
                )
            except (OSError, WebSocketException):
                return False
            return True

        until(connected, limit)

    def close(self) -> None:
        """Reads first what came before its server was killed, as it is not sent again."""
        if self.socket is not None:
            while self.server.process is None and self.read() is not None:
                pass
            self.socket.close()
            self.socket = None

    def send(self, kind: str, content: dict[str, Any], channel: str = "shell", **more: Any) -> str:
        """Sends a message; returns its id."""
        header = {
            "msg_id": more.pop("msg_id", uuid.uuid4().hex),
            "msg_type": kind,
            "session": self.session,
            "username": "tést",  # what is sent again is known by its header, byte for byte
            "date": datetime.now(UTC).isoformat(),
            "version": "5.3",
            "subshell_id": None,  # as JupyterLab says it
        }
        message = {
            "header": header,
            "parent_header": more.pop("parent", {}),
            "metadata": more,
            "content": content,
            "channel": channel,
        }
        self.put(message)
        return header["msg_id"]

    def put(self, message: dict[str, Any]) -> None:
        self.socket.send(json.dumps(message))

    def get(self, said: str | bytes) -> dict[str, Any]:
        assert isinstance(said, str), "a binary message, which no cell here asks for"
        return json.loads(said)

    def execute(self, code: str, **metadata: Any) -> str:
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True}
        return self.send("execute_request", content, user_expressions={}, **metadata)

    def read(self, limit: float = 30.0) -> dict[str, Any] | None:
        """The next message; None when the connection ends. TimeoutError after *limit* seconds."""
        assert self.socket is not None
        end = time.monotonic() + limit
        kind = ABNF.OPCODE_PING
        try:
            while kind in (ABNF.OPCODE_PING, ABNF.OPCODE_PONG):
                self.socket.settimeout(max(0.01, end - time.monotonic()))
                kind, said = self.socket.recv_data(control_frame=True)
        except WebSocketTimeoutException:
            raise TimeoutError(f"no message within {limit} s") from None
        except (OSError, WebSocketConnectionClosedException):
            return None
        if kind == ABNF.OPCODE_CLOSE:
            return None
        message = self.get(said.decode() if kind == ABNF.OPCODE_TEXT else said)
        self.messages.append(message)
        return message

    def until(
        self, what: Callable[[dict[str, Any]], object], limit: float = 60.0
    ) -> dict[str, Any]:
        """Reads until a message of which *what* is true."""
        end = time.monotonic() + limit
        while True:
            message = self.read(max(0.01, end - time.monotonic()))
            assert message is not None, "the connection ended"
            if what(message):
                return message

    def until_done(self, request: str, limit: float = 60.0) -> None:
        """Reads until a request has both its reply and its idle."""

        def mine(kind: str, state: str = "") -> bool:
            return any(
                m["parent_header"].get("msg_id") == request
                and m["msg_type"] == kind
                and m["content"].get("execution_state", "") == state
                for m in self.messages
            )

        end = time.monotonic() + limit
        while not (mine("execute_reply") and mine("status", "idle")):
            message = self.read(max(0.01, end - time.monotonic()))
            assert message is not None, "the connection ended"

    def run(self, code: str, limit: float = 60.0) -> str:
        """What *code* prints, when it is done."""
        request = self.execute(code)
        self.until_done(request, limit)
        return self.printed(request)

    def printed(self, request: str) -> str:
        """What a request has printed, each message once: a client may get a last one twice."""
        seen: dict[str, str] = {}
        for message in self.messages:
            if (
                message["msg_type"] == "stream"
                and message["parent_header"].get("msg_id") == request
            ):
                seen[message["header"]["msg_id"]] = message["content"]["text"]
        return "".join(seen.values())


class CountingClient(Client):
    """Counts as our page does: says what it has, and is told the number of what comes.

    Attributes
    ----------
    seen: the number of the last message that came; None before the first connection.
    """

    seen: int | None = None
    protocols = ("v1.kernel.websocket.jupyter.org",)

    def put(self, message: dict[str, Any]) -> None:
        parts = [json.dumps(message[part]).encode() for part in PARTS]
        parts.insert(0, message["channel"].encode())
        ends = itertools.accumulate(map(len, parts), initial=8 * (len(parts) + 2))
        offsets = [len(parts) + 1, *ends]
        self.socket.send_binary(struct.pack(f"<{len(offsets)}Q", *offsets) + b"".join(parts))

    def get(self, said: str | bytes) -> dict[str, Any]:
        if isinstance(said, str):
            return json.loads(said)
        (count,) = struct.unpack_from("<Q", said)
        offsets = struct.unpack_from(f"<{count}Q", said, 8)
        _, *parts = (said[start:end] for start, end in itertools.pairwise(offsets))
        message = {name: json.loads(part) for name, part in zip(PARTS, parts, strict=False)}
        return {**message, "msg_type": message["header"]["msg_type"]}

    @property
    def counting(self) -> str:
        return f"&jupyter_tpu_seen={'' if self.seen is None else self.seen}"

    def read(self, limit: float = 30.0) -> dict[str, Any] | None:
        message = super().read(limit)
        while message is not None and "jupyter_tpu" in message:
            words = self.messages.pop()["jupyter_tpu"]
            self.seen = words.get("at", self.seen)
            message = super().read(limit)
        mark = message["metadata"].get("jupyter_tpu") if message is not None else None
        if mark is not None and not mark["replayed"]:
            self.seen = mark["number"]
            with contextlib.suppress(ConnectionError):  # its server may have been killed meanwhile
                self.socket.send(json.dumps({"jupyter_tpu": {"seen": self.seen}}))
        return message
