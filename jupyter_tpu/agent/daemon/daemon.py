"""The daemon: one per host and version of the agent; starts keepers and answers questions.

It listens on a unix socket that only this user reaches and speaks JSON, one object per line: after
its own hello, ``{"id": 1, "op": "kernels", "params": {…}}`` is answered, in any order, by
``{"id": 1, "result": {…}}`` or ``{"id": 1, "error": {"reason", "message", "hint"}}``. Nothing
depends on it for longer than a question: keepers go on without it, and another version's daemon
asks them as well as it does. With no connection and no keeper it ends by itself; ``up`` starts it
when it is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import sys
import time
import traceback
from typing import Any, Awaitable, Callable, Dict

from ..protocol.paths import boot
from ..protocol.peer import peer_user
from .chips import devices, holders
from .keepers import Keepers, StartError
from .probe import probe
from .warm_kernels import WarmKernels

#: Seconds without a connection and without a kernel after which the daemon ends.
IDLE = 3.0
#: Seconds for which a start waits for chips that another process holds.
RELEASE = 3.0
#: Largest request, bytes.
MAX_LINE = 1 << 20


class Rejected(Exception):
    """An op that cannot be done: the reason (a word of errors.Reason), the sentence, the hint."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.answer = {"reason": reason, "message": message, "hint": hint}


class Daemon:
    """Answers ops on *path*.

    Parameters
    ----------
    run: the folder of sockets and kernels.
    version: the hash of the agent's sources.
    sources: where they are.
    idle: seconds of uselessness after which it ends.
    """

    def __init__(self, run: str, version: str, sources: str, idle: float = IDLE) -> None:
        self.run_folder = run
        self.version = version
        self._idle = idle
        self._connections: "set[asyncio.StreamWriter]" = set()
        self._warm = WarmKernels(sources)
        self._keepers = Keepers(run, sources, self._warm)
        self._starting: Dict[str, asyncio.Lock] = {}  # one start of a kernel id at a time
        self._tasks: "set[asyncio.Future[Any]]" = set()
        self._ended = asyncio.Event()
        self._used = time.monotonic()
        self._ops: Dict[str, Callable[[Dict[str, Any]], Awaitable[Dict[str, Any]]]] = {
            "probe": self._probe,
            "start_kernel": self._start_kernel,
            "kernels": self._kernels,
            "chips": self._chips,
            "end_kernel": self._end_kernel,
            "kernel_key": self._kernel_key,
            "signal_kernel": self._signal_kernel,
            "keep_warm": self._keep_warm,
            "status": self._status,
            "prepare_delete": self._prepare_delete,
            "end_agent": self._end_agent,
        }

    async def run(self, path: str) -> None:
        """Serves until it is useless or told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ended.set)
        server = await asyncio.start_unix_server(self._connected, path, limit=MAX_LINE)
        watch = asyncio.ensure_future(self._watch(path))
        warm = asyncio.ensure_future(self._warm.run())
        await self._ended.wait()
        watch.cancel()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        server.close()
        warm.cancel()
        await asyncio.gather(warm, return_exceptions=True)
        for writer in list(self._connections):
            writer.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._keepers.close()

    async def _watch(self, path: str) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._idle / 4))
            if not os.path.exists(path):
                self._ended.set()  # somebody removed its folder: nobody can reach it
            elif self._connections or self._keepers.folders:
                self._used = time.monotonic()
            elif time.monotonic() - self._used > self._idle:
                self._ended.set()

    # ---- connections

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_user(writer.get_extra_info("socket")) != os.getuid():
            writer.close()
            return
        self._connections.add(writer)
        hello = {
            "agent": self.version,
            "pid": os.getpid(),
            "run": self.run_folder,
            "python": sys.executable,
            "boot": boot(),
        }
        writer.write(_line(hello))
        try:
            while True:
                line = await reader.readline()
                if not line:
                    return
                task = asyncio.ensure_future(self._serve(line, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (OSError, ValueError):
            pass  # the connection broke, or a line was longer than the limit
        finally:
            self._connections.discard(writer)
            self._warm.forget(writer)
            writer.close()

    async def _serve(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        asked: Any = None
        try:
            asked = json.loads(line)
            op = self._ops.get(asked["op"])
            if op is None:
                raise Rejected("INVALID", "The agent does not know how to %r." % asked["op"])
            if op in (self._keep_warm, self._status):
                asked["params"]["who"] = writer
            answer = {"result": await op(asked["params"])}
        except Rejected as refused:
            answer = {"error": refused.answer}
        except OSError as error:
            answer = {"error": _from_oserror(error)}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = "The agent cannot make sense of the request (%s)." % error
            answer = {"error": {"reason": "INVALID", "message": message, "hint": ""}}
            traceback.print_exc()  # to the log: it may be ours
        number = asked.get("id") if isinstance(asked, dict) else None
        try:
            writer.write(_line({"id": number, **answer}))
            await writer.drain()
        except OSError:
            pass  # nobody is there to hear it

    # ---- ops

    async def _probe(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        return {**probe(), "agent": self.version}

    async def _start_kernel(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """Starts a keeper, which starts a kernel.

        ``id``, ``launch`` (the same for a repeated request, which starts nothing), ``python`` (of
        the environment), ``key``, ``secret`` (of the lease); perhaps ``environment`` (its name),
        ``cwd``, ``env``, ``notebook``, ``grace`` (seconds the kernel may be without a client;
        None: any), ``journal_limit`` (bytes of output that nobody has taken) and ``when_full``
        ("pause" the kernel, which is the default, or "drop" the oldest output), ``needs_chips``:
        not while another process holds the host's chips; ``tpu``: what its user calls the host.
        """
        order = _order(asked)
        kernel_id = order["id"]
        async with self._starting.setdefault(kernel_id, asyncio.Lock()):
            words = await self._keepers.status(kernel_id)
            if words is None or words.get("launch") != order["launch"]:
                if words is not None and words["state"] != "dead":
                    raise Rejected("EXISTS", "A kernel with the id %s runs already." % kernel_id)
                await self._keepers.end(kernel_id, now=True)
                if asked.get("needs_chips"):
                    await self._wait_for_chips(order["env"], str(asked.get("tpu", "TPU")))
                words = await self._launch(kernel_id, order)
        return {
            "pid": words["pid"],
            "keeper": words["keeper"],
            "socket": self._keepers.place(kernel_id),
        }

    async def _launch(self, kernel_id: str, order: Dict[str, Any]) -> Dict[str, Any]:
        try:
            return await self._keepers.start(kernel_id, order)
        except StartError as error:
            raise Rejected(
                "ENVIRONMENT",
                "The kernel could not be started on the host: %s." % str(error).rstrip("."),
                "Connect the TPU again to repair its environment.",
            ) from error

    async def _wait_for_chips(self, environment: Dict[str, str], tpu: str) -> None:
        """Returns when nobody holds the chips; raises Rejected when that takes too long."""
        if _needs_no_chip(environment):
            return
        deadline = time.monotonic() + RELEASE
        while True:
            held = holders()
            if not held:
                return
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.1)
        raise _held_by((await self._keepers.name(held))[0], tpu)

    async def _chips(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """The ``devices`` of this host's chips and their ``holders``, with ``kernel`` (the id) and
        ``notebook`` where a holder belongs to a kernel.
        """
        return {"devices": devices(), "holders": await self._keepers.name(holders())}

    async def _kernels(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        statuses = await self._keepers.statuses()
        holding = {holder["kernel"] for holder in await self._keepers.name(holders(), statuses)}
        return {"kernels": [{**each, "chips": each["id"] in holding} for each in statuses]}

    async def _end_kernel(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """Ends the kernel ``id`` and all it started; ``now``: without asking it first; ``secret``:
        only if it is the master's.
        """
        secret = asked.get("secret")
        secret = None if secret is None else str(secret)
        return {"ended": await self._keepers.end(str(asked["id"]), bool(asked.get("now")), secret)}

    async def _kernel_key(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """The ``key`` of the kernel ``id``, for who is about to steal its lease."""
        key = self._keepers.key(str(asked["id"]))
        if key is None:
            raise Rejected("NOT_FOUND", "There is no kernel with the id %s." % asked["id"])
        return {"key": key}

    async def _signal_kernel(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        status = await self._keepers.signal(str(asked["id"]), int(asked["signal"]))
        if status is None:
            raise Rejected("NOT_FOUND", "There is no kernel with the id %s." % asked["id"])
        return status

    async def _keep_warm(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """Keeps a warm kernel of each of these ``environments`` and of no others, for this client
        and as long as it is connected: ``python``; perhaps ``imports`` (modules), ``env``.
        """
        wishes = [
            {
                "python": str(wish["python"]),
                "imports": [str(name) for name in wish.get("imports", ())],
                "env": {str(name): str(value) for name, value in wish.get("env", {}).items()},
            }
            for wish in asked["environments"]
        ]
        self._warm.want(asked["who"], wishes)
        return {"warm": self._warm.statuses()}

    async def _status(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """What ``keep_warm`` and ``kernels`` answer, in one: for who asks again and again."""
        return {**await self._keep_warm(asked), **await self._kernels(asked)}

    async def _prepare_delete(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """Ends all kernels, then the agent: nothing of it runs on the host afterwards."""
        statuses = await self._keepers.statuses()
        await asyncio.gather(*(self._keepers.end(status["id"], now=True) for status in statuses))
        self._end_soon()
        return {"ended": len(statuses)}

    async def _end_agent(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """Ends the daemon if nobody else is connected and there is no kernel to look after."""
        useless = len(self._connections) <= 1 and not self._keepers.folders
        if useless:
            self._end_soon()
        return {"ended": useless}

    def _end_soon(self) -> None:
        # After the answer is out.
        asyncio.get_running_loop().call_later(0.01, self._ended.set)


def _held_by(holder: Dict[str, Any], tpu: str) -> Rejected:
    who = "process %d of %s: %s" % (holder["pid"], holder["user"], holder["command"])
    hint = "End that process on the host, or wait for its end."
    if holder["kernel"]:
        notebook = os.path.basename(holder["notebook"])
        kernel = "of %s" % notebook if notebook else holder["kernel"]
        who = "the kernel %s (%s)" % (kernel, who)
        hint = "Shut that kernel down: in the TPU panel, or with `jupyter tpu kernel end %s %s`."
        hint %= tpu, holder["kernel"]
    return Rejected("CHIPS_HELD", "The chips of %s are held by %s." % (tpu, who), hint)


def _needs_no_chip(environment: Dict[str, str]) -> bool:
    """Whether a kernel with these variables leaves the chips alone, or shares them on purpose."""
    if environment.get("JAX_PLATFORMS") == "cpu":
        return True
    for name in ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"):
        if name in environment:
            return len(environment[name].split(",")) < len(devices())
    return False


def _order(asked: Dict[str, Any]) -> Dict[str, Any]:
    """What a keeper is told, from what the client asked for."""
    home = os.path.expanduser("~")
    python, cwd = str(asked["python"]), os.path.expanduser(str(asked.get("cwd") or home))
    if not os.access(python, os.X_OK):
        raise Rejected(
            "ENVIRONMENT",
            "There is no Python at %s on the host." % python,
            "Connect the TPU again; its environment is made anew where it is missing.",
        )
    return {
        "id": str(asked["id"]),
        "launch": str(asked["launch"]),
        "python": python,
        "key": str(asked["key"]),
        "secret": str(asked["secret"]),
        "environment": str(asked.get("environment", "")),
        "notebook": str(asked.get("notebook", "")),
        "env": {str(name): str(value) for name, value in asked.get("env", {}).items()},
        "cwd": cwd if os.path.isdir(cwd) else home,
        "grace": asked.get("grace"),
        "journal_limit": asked.get("journal_limit"),
        "when_full": asked.get("when_full"),
    }


def _from_oserror(error: OSError) -> Dict[str, Any]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = "The host's disk is full."
        return {"reason": "DISK_FULL", "message": message, "hint": "Delete files on the host."}
    return {"reason": "INTERNAL", "message": "On the host: %s." % error, "hint": ""}


def _line(words: Dict[str, Any]) -> bytes:
    return json.dumps(words, separators=(",", ":")).encode() + b"\n"
