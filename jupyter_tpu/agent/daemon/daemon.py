"""The daemon: one per host and version of the agent; it starts keepers and answers requests.

It listens on a unix socket that only this user can reach, and speaks JSON, one object per line.
After its hello, ``{"id": 1, "op": "kernels", "params": {…}}`` is answered, in any order, by
``{"id": 1, "result": {…}}`` or ``{"id": 1, "error": {"reason", "message", "hint"}}``. Nothing
depends on it for longer than a request: keepers continue without it, and the daemon of another
version can ask them as well. Without connections and keepers it ends automatically; ``up`` starts
it again.
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

from ..protocol.chips import chip_devices, holders
from ..protocol.frames import LONGEST_ANSWER, LONGEST_REQUEST, json_line
from ..protocol.messages import now
from ..protocol.paths import boot
from ..protocol.peer import peer_user
from ..protocol.process_env import complete_variables
from ..protocol.timeouts import cancel_all, exit_within
from .chip_checks import ChipChecks, chosen_by
from .chip_errors import booked_meanwhile
from .guard_operations import GuardOperations
from .interruption import Announced
from .job_operations import job_operations
from .jobs import Jobs
from .keepers import ChipsTaken, Keepers, KeeperSilent, StartError
from .metadata import follow_announcements
from .operation_error import OperationError
from .owners import ProcessOwners
from .probe import probe
from .runs import Runs
from .status import HostStatus
from .warm_kernels import WarmKernels

#: Seconds without a connection and without a kernel after which the daemon ends. The client that
#: had it started needs some to connect if the host or the line is slow.
IDLE = 30.0
#: Seconds in which it ends when it is told to, whatever hangs: no other one can start before.
ENDING = 12.0
#: After these, those who poll hear at once of what has changed.
_CHANGING_OPS = (
    *("start_kernel", "end_kernel", "keep_warm", "start_job", "stop_job"),
    *("set_guard", "keep", "remove_guard"),
)
_TOO_LONG = "%s of the agent on the host is longer than %d MiB."
#: The message and the hint about a kernel whose keeper does not answer.
_SILENT = "The process that keeps the kernel does not answer on the host.", "Try again later."


class Daemon:
    """Serves ops on a socket.

    Parameters
    ----------
    run: the folder of sockets and kernels.
    version: the hash of the agent's sources.
    sources: where they are.
    idle: seconds without a connection and a kernel after which it ends.
    """

    def __init__(self, run: str, version: str, sources: str, idle: float = IDLE) -> None:
        self.run_folder = run
        self.version = version
        self._idle = idle
        self._connections: "set[asyncio.StreamWriter]" = set()
        self._warm = WarmKernels(sources)
        self._keepers = Keepers(run, sources, self._warm)
        self._runs = Runs()
        self._jobs = Jobs(sources)
        self._owners = ProcessOwners(self._keepers, self._jobs, self._runs)
        self._chip_checks = ChipChecks(self._keepers, self._owners)
        self._guard = GuardOperations(sources)
        self._announced = Announced()
        self._status = HostStatus(
            self._warm, self._jobs, self._kernels, self._guard.report, self._announced
        )
        self._starting: Dict[str, asyncio.Lock] = {}  # one start of a kernel id at a time
        self._tasks: "set[asyncio.Future[Any]]" = set()
        self._ended = asyncio.Event()
        self._used = time.monotonic()
        self._ops: Dict[str, Callable[[Dict[str, Any]], Awaitable[Dict[str, Any]]]] = {
            "probe": self._probe,
            "start_kernel": self._start_kernel,
            "kernels": self._kernels,
            "kernel_fate": self._kernel_fate,
            "chips": self._chips,
            "process_owners": self._process_owners,
            "end_kernel": self._end_kernel,
            "kernel_key": self._kernel_key,
            "signal_kernel": self._signal_kernel,
            "keep_warm": self._keep_warm,
            "status": self._wait_status,
            "load": self._load,
            **self._runs.operations(),
            **job_operations(self._jobs),
            **self._guard.operations(),
            "prepare_delete": self._prepare_delete,
            "end_agent": self._end_agent,
        }

    async def run(self, path: str) -> None:
        """Serves on the socket *path* until it is idle or told to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ended.set)
        server = await asyncio.start_unix_server(self._connected, path, limit=LONGEST_REQUEST)
        watch = asyncio.ensure_future(self._watch(path))
        warm = asyncio.ensure_future(self._warm.run())
        with contextlib.suppress(OSError):  # the disk is full
            self._guard.resume()
        follow_announcements(self._metadata_noted)
        await self._ended.wait()
        exit_within(ENDING)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        server.close()
        for writer in list(self._connections):
            writer.close()
        await cancel_all([watch, warm, *self._tasks])
        await self._status.load.close()
        await self._runs.close()
        await self._keepers.close()

    async def _watch(self, path: str) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._idle / 4))
            if not os.path.exists(path):
                self._ended.set()  # its folder was removed: no client can reach it
                continue
            await self._runs.end_abandoned()
            if self._connections or self._keepers.folders or self._runs.running:
                self._used = time.monotonic()
            elif time.monotonic() - self._used > self._idle:
                self._ended.set()

    def _metadata_noted(self, key: str, value: str) -> None:
        if self._announced.note(key, value, now()):
            self._status.notify_changed()
            interruption = self._announced.interruption or {"kind": ""}
            task = asyncio.ensure_future(self._keepers.announce("google", interruption["kind"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

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
        writer.write(json_line(hello))
        try:
            while True:
                line = await reader.readline()
                if not line:
                    return
                task = asyncio.ensure_future(self._serve(line, writer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except ValueError:
            writer.write(
                _failure(None, "INVALID", _TOO_LONG % ("A request", LONGEST_REQUEST >> 20))
            )
        except OSError:
            pass  # the connection broke
        finally:
            self._connections.discard(writer)
            self._warm.forget(writer)
            self._status.forget(writer)
            self._runs.client_left(writer)
            writer.close()

    async def _serve(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        request: Any = None
        try:
            request = json.loads(line)
            op = self._ops.get(request["op"])
            if op is None:
                raise OperationError("INVALID", "The agent has no operation %r." % request["op"])
            answer = {"result": await op({**request["params"], "who": writer})}
            if request["op"] in _CHANGING_OPS:
                self._status.notify_changed()
        except OperationError as error:
            answer = {"error": error.answer}
        except KeeperSilent:
            answer = {"error": OperationError("TIMEOUT", *_SILENT).answer}
        except OSError as error:
            answer = {"error": _from_oserror(error)}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = "The request to the agent is invalid (%s)." % error
            answer = {"error": {"reason": "INVALID", "message": message, "hint": ""}}
            traceback.print_exc()  # to the log: it may be a bug of ours
        except Exception as error:
            message = "The agent on the host failed (%s: %s)." % (type(error).__name__, error)
            answer = {"error": {"reason": "INTERNAL", "message": message, "hint": ""}}
            traceback.print_exc()
        number = request.get("id") if isinstance(request, dict) else None
        line = json_line({"id": number, **answer})
        if len(line) > LONGEST_ANSWER:
            line = _failure(number, "INTERNAL", _TOO_LONG % ("An answer", LONGEST_ANSWER >> 20))
        try:
            writer.write(line)
            await writer.drain()
        except OSError:
            pass  # the client is gone

    # ---- ops

    async def _probe(self, params: Dict[str, Any]) -> Dict[str, Any]:
        return {**probe(), "agent": self.version}

    async def _start_kernel(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Starts a keeper, which starts a kernel.

        Parameters: ``id``, ``launch`` (the same for a repeated request, which starts nothing),
        ``python`` (of the environment), ``key``, ``secret`` (of the lease). Optional:
        ``environment`` (its name), ``cwd``, ``mirror`` (made if missing, and used if ``cwd`` is
        the home folder), ``env``, ``notebook``, ``journal_limit`` (bytes of
        output that no client has acknowledged), ``when_full`` ("pause" the kernel, the default, or
        "drop" the oldest output), ``needs_chips`` (waits for chips that another process holds),
        ``chips`` (numbers: it gets these, and no other kernel does), ``tpu`` (the TPU's name in
        messages), ``pod`` (a kernel on all ``hosts``, so many, to which this one has the
        ``address``).
        """
        spec = _spec_from(params)
        kernel_id = spec["id"]
        async with self._starting.setdefault(kernel_id, asyncio.Lock()):
            status = await self._keepers.status(kernel_id)
            if status is None or status.get("launch") != spec["launch"]:
                if status is not None and status["state"] != "dead":
                    raise OperationError(
                        "EXISTS", "A kernel with the id %s is already running." % kernel_id
                    )
                await self._keepers.end(kernel_id, now=True)
                await self._keepers.make_room()
                spec["chips"] = chosen_by(params, spec["env"])
                status = await self._launch(kernel_id, spec, str(params.get("tpu", "TPU")))
        return {
            "pid": status["pid"],
            "keeper": status["keeper"],
            "socket": self._keepers.socket_path(kernel_id),
        }

    async def _launch(self, kernel_id: str, spec: Dict[str, Any], tpu: str) -> Dict[str, Any]:
        await self._chip_checks.wait(spec["chips"], tpu)
        try:
            return await self._keepers.start(kernel_id, spec)
        except ChipsTaken:
            raise booked_meanwhile(spec["chips"], tpu) from None
        except StartError as error:
            raise OperationError(
                "ENVIRONMENT",
                "The kernel could not be started on the host: %s." % str(error).rstrip("."),
                "Connect the TPU again to repair its environment.",
            ) from error

    async def _chips(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """The ``devices`` of this host's chips and their ``holders``, with the ``kernel`` (an id)
        and its ``notebook``, ``job`` or ``run`` to which each belongs.
        """
        return {"devices": chip_devices(), "holders": await self._owners.name(holders())}

    async def _process_owners(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """To what the processes ``pids`` belong: ``owners``, as in ``chips``, in their order."""
        pids = [int(pid) for pid in params["pids"]]
        owners = await self._owners.of(pids)
        return {"owners": [owners[pid] for pid in pids]}

    async def _kernels(self, params: Dict[str, Any]) -> Dict[str, Any]:
        statuses = await self._keepers.statuses()
        held = await self._owners.name(holders() if statuses else [], statuses)
        holding = {holder["kernel"] for holder in held}
        return {"kernels": [{**each, "chips": each["id"] in holding} for each in statuses]}

    async def _kernel_fate(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """What became of the kernel ``id``: see `Keepers.fate`."""
        return await self._keepers.fate(str(params["id"]))

    async def _end_kernel(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Ends the kernel ``id`` and all it started; ``now``: without asking it first; ``secret``:
        only if it is that of the lease.
        """
        kernel_id = str(params["id"])
        secret = params.get("secret")
        secret = None if secret is None else str(secret)
        starting = self._starting.get(kernel_id)
        if starting is not None:  # a start in progress must not complete after this
            async with starting:
                pass
        return {"ended": await self._keepers.end(kernel_id, bool(params.get("now")), secret)}

    async def _kernel_key(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """The ``key`` of the kernel ``id``, for a client that takes over its lease."""
        key = self._keepers.key(str(params["id"]))
        if key is None:
            raise OperationError(
                "NOT_FOUND", "The kernel %s does not exist on the host." % params["id"]
            )
        return {"key": key}

    async def _signal_kernel(self, params: Dict[str, Any]) -> Dict[str, Any]:
        status = await self._keepers.signal(str(params["id"]), int(params["signal"]))
        if status is None:
            raise OperationError(
                "NOT_FOUND", "The kernel %s does not exist on the host." % params["id"]
            )
        return status

    async def _keep_warm(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Keeps a warm kernel of each of these ``environments`` and of no others, for this client
        while it is connected: ``python``; optional: ``imports`` (modules), ``env``.
        """
        requested = [
            {
                "python": str(each["python"]),
                "imports": [str(name) for name in each.get("imports", ())],
                "env": _variables(each),
            }
            for each in params["environments"]
        ]
        self._warm.request(params["who"], requested)
        return {"warm": self._warm.statuses()}

    async def _wait_status(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """The results of ``keep_warm`` and ``kernels``, jobs and more, for polling: see
        `HostStatus.wait`.
        """
        await self._keep_warm(params)
        return await self._status.wait(params)

    async def _load(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """The ``load`` of the chips now: one sample, see `load.read_sample`."""
        return {"load": await self._status.load.latest()}

    async def _prepare_delete(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Ends all kernels and jobs, then the agent and its commands: nothing of it continues."""
        self._guard.remove()
        await self._jobs.stop_all()
        statuses = await self._keepers.statuses()
        await asyncio.gather(*(self._keepers.end(status["id"], now=True) for status in statuses))
        self._end_soon()
        return {"ended": len(statuses)}

    async def _end_agent(self, params: Dict[str, Any]) -> Dict[str, Any]:
        """Ends the daemon if no other client is connected and there is no kernel."""
        others = len(self._connections) > 1 or self._keepers.folders or self._runs.running
        idle = not others
        if idle:
            self._end_soon()
        return {"ended": idle}

    def _end_soon(self) -> None:
        # After the answer is sent.
        asyncio.get_running_loop().call_later(0.01, self._ended.set)


def _spec_from(params: Dict[str, Any]) -> Dict[str, Any]:
    """What a keeper is started with, from the client's parameters."""
    home = os.path.expanduser("~")
    python, cwd = str(params["python"]), os.path.expanduser(str(params.get("cwd") or home))
    if not os.access(python, os.X_OK):
        raise OperationError(
            "ENVIRONMENT",
            "There is no Python at %s on the host." % python,
            "Connect the TPU again to create its missing environment.",
        )
    if os.path.realpath(cwd) == os.path.realpath(home) and params.get("mirror"):
        mirror = os.path.expanduser(str(params["mirror"]))
        with contextlib.suppress(OSError):  # the sync says why
            os.makedirs(mirror, exist_ok=True)
            cwd = mirror
    spec = {
        "id": str(params["id"]),
        "launch": str(params["launch"]),
        "python": python,
        "key": str(params["key"]),
        "secret": str(params["secret"]),
        "environment": str(params.get("environment", "")),
        "notebook": str(params.get("notebook", "")),
        "env": _variables(params),
        "cwd": cwd if os.path.isdir(cwd) else home,
        "journal_limit": params.get("journal_limit"),
        "when_full": params.get("when_full"),
    }
    if params.get("pod"):
        member = {name: spec[name] for name in ("python", "env", "cwd")}
        member["mirrored"] = cwd != home and bool(params.get("mirror"))
        member["needs_chips"] = bool(params.get("needs_chips"))
        hosts, address = int(params["pod"]["hosts"]), str(params["pod"]["address"])
        spec["pod"] = {"hosts": hosts, "address": address, "member": member}
    return spec


def _variables(params: Dict[str, Any]) -> Dict[str, str]:
    wanted = dict(params.get("env", {}))
    if params.get("tpu"):
        wanted["JUPYTER_TPU_NAME"] = params["tpu"]  # for what the kernel itself says
    return complete_variables({str(name): str(value) for name, value in wanted.items()})


def _from_oserror(error: OSError) -> Dict[str, Any]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = "The host's disk is full."
        return {"reason": "DISK_FULL", "message": message, "hint": "Delete files on the host."}
    return {"reason": "INTERNAL", "message": "On the host: %s." % error, "hint": ""}


def _failure(number: Any, reason: str, message: str) -> bytes:
    return json_line({"id": number, "error": {"reason": reason, "message": message, "hint": ""}})
