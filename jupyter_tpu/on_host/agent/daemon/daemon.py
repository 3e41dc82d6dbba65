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
from typing import Any, Dict, List, Optional

from ..protocol import requests
from ..protocol.chips import holders
from ..protocol.dates import now
from ..protocol.declarations import InvalidRequest, parse
from ..protocol.frames import LONGEST_ANSWER, LONGEST_REQUEST, json_line
from ..protocol.paths import boot
from ..protocol.peer import peer_user
from ..protocol.process_env import complete_variables
from ..protocol.records import DaemonStatus, KernelReport
from ..protocol.timeouts import cancel_all, exit_within
from .chip_checks import ChipChecks, booked_meanwhile, chosen_by
from .guard_operations import GuardOperations
from .handlers import OperationError, handlers, handles
from .homes import HomeFolders
from .jobs import HostJobs
from .keeper_starter import KeeperStarter
from .keepers import ChipsTaken, Keepers, KeeperSilent, StartError
from .metadata import Announced, follow_announcements
from .owners import ProcessOwners
from .runs import Runs
from .sessions import StoredSessions
from .single_process import DAEMON_END_SECONDS
from .status import HostStatus
from .warm_kernels import WarmKernels

#: Seconds without a connection and without a kernel after which the daemon ends. The client that
#: had it started needs some to connect if the host or the line is slow.
IDLE_SECONDS = 30.0
#: What a warm pod kernel has imported on each host.
POD_IMPORTS = "jax", "jax.experimental.multihost_utils"
_TOO_LONG = "%s of the daemon on the host is longer than %d MiB."
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
    starter: of the keepers of commands, jobs and kernels.
    """

    def __init__(
        self,
        run: str,
        version: str,
        sources: str,
        idle: float = IDLE_SECONDS,
        starter: Optional[KeeperStarter] = None,
    ) -> None:
        self.run_folder = run
        self.version = version
        self._idle = idle
        self._connections: "set[asyncio.StreamWriter]" = set()
        self._starter = starter or KeeperStarter()
        self._warm = WarmKernels(self._starter)
        self._keepers = Keepers(run, self._starter, self._warm)
        self._runs = Runs(self._starter)
        self._jobs = HostJobs(self._starter)
        self._owners = ProcessOwners(self._keepers, self._jobs, self._runs)
        self._chip_checks = ChipChecks(self._keepers, self._owners)
        self._guard = GuardOperations(sources)
        self._announced = Announced()
        self._homes = HomeFolders(sources, self._home_changed)
        self._status = HostStatus(
            self._warm,
            self._jobs,
            self._list_kernels,
            self._guard.report,
            self._announced,
            self._homes.report,
        )
        self._starting: Dict[str, asyncio.Lock] = {}  # one start of a kernel id at a time
        self._tasks: "set[asyncio.Future[Any]]" = set()
        self._ended = asyncio.Event()
        self._used = time.monotonic()
        sessions = StoredSessions(sources)
        self._handlers = handlers(self, self._runs, self._jobs, self._guard, sessions, self._homes)

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
        homes = asyncio.ensure_future(self._homes.run())
        follow_announcements(self._metadata_noted)
        await self._ended.wait()
        exit_within(DAEMON_END_SECONDS)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        server.close()
        for writer in list(self._connections):
            writer.close()
        await cancel_all([watch, warm, homes, *self._tasks])
        await self._homes.close()
        await self._status.load.close()
        self._starter.close()
        await self._keepers.close()

    async def _watch(self, path: str) -> None:
        while True:
            await asyncio.sleep(min(1.0, self._idle / 4))
            if not os.path.exists(path):
                self._ended.set()  # its folder was removed: no client can reach it
                continue
            working = self._keepers.folders or self._runs.awaited() or self._homes.active
            if self._connections or working:
                self._used = time.monotonic()
            elif time.monotonic() - self._used > self._idle:
                self._ended.set()

    def _metadata_noted(self, key: str, value: str) -> None:
        if self._announced.note(key, value, now()):
            self._status.notify_changed()
            interruption = self._announced.interruption or {"kind": ""}
            if interruption["kind"]:
                self._homes.save_soon()
            task = asyncio.ensure_future(self._keepers.announce("google", interruption["kind"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _home_changed(self) -> None:
        self._status.notify_changed()

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
            writer.close()

    async def _serve(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        message: Any = None
        try:
            message = json.loads(line)
            request = parse(requests.REQUESTS, message["op"], message["params"])
            request.client = writer
            answer = {"result": await self._handlers[request.op](request)}
            if request.changes:
                self._status.notify_changed()
        except OperationError as error:
            answer = {"error": error.answer}
        except KeeperSilent:
            answer = {"error": OperationError("TIMEOUT", *_SILENT).answer}
        except OSError as error:
            answer = {"error": _from_oserror(error)}
        except InvalidRequest as error:
            answer = {"error": OperationError("INVALID", str(error)).answer}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            text = "The request to the daemon is invalid (%s)." % error
            answer = {"error": OperationError("INVALID", text).answer}
            traceback.print_exc()  # to the log: it may be a bug of ours
        except Exception as error:
            text = "The daemon on the host failed (%s: %s)." % (type(error).__name__, error)
            answer = {"error": OperationError("INTERNAL", text).answer}
            traceback.print_exc()
        number = message.get("id") if isinstance(message, dict) else None
        line = json_line({"id": number, **answer})
        if len(line) > LONGEST_ANSWER:
            line = _failure(number, "INTERNAL", _TOO_LONG % ("An answer", LONGEST_ANSWER >> 20))
        try:
            writer.write(line)
            await writer.drain()
        except OSError:
            pass  # the client is gone

    # ---- requests

    @handles(requests.GetTimeRequest)
    async def _time(self, request: requests.GetTimeRequest) -> requests.HostTime:
        return {"time": time.time()}

    @handles(requests.StartKernelRequest)
    async def _start_kernel(self, request: requests.StartKernelRequest) -> requests.KernelStart:
        spec = _spec_from(request)
        kernel_id = request.id
        async with self._starting.setdefault(kernel_id, asyncio.Lock()):
            status: Any = await self._keepers.status(kernel_id)
            if status is None or status.get("launch") != request.launch:
                if status is not None and status["state"] != "dead":
                    raise OperationError(
                        "EXISTS", "A kernel with the id %s is already running." % kernel_id
                    )
                await self._keepers.end(kernel_id, now=True)
                await self._keepers.free_disk()
                spec["chips"] = chosen_by(request, spec["env"])
                status = await self._launch(kernel_id, spec, request.tpu or "TPU")
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
                error.hint or "Connect the TPU again to repair its environment.",
            ) from error

    @handles(requests.GetProcessOwnersRequest)
    async def _process_owners(
        self, request: requests.GetProcessOwnersRequest
    ) -> requests.OwnerList:
        owners = await self._owners.of(request.pids)
        return {"owners": [owners[pid] for pid in request.pids]}

    @handles(requests.ListKernelsRequest)
    async def _kernels(self, request: requests.ListKernelsRequest) -> requests.KernelList:
        return {"kernels": await self._list_kernels()}

    async def _list_kernels(self) -> List[KernelReport]:
        statuses = await self._keepers.statuses()
        held = await self._owners.name(holders() if statuses else [], statuses)
        holding = {holder["kernel"] for holder in held}
        return [{**status, "chips": status["id"] in holding} for status in statuses]

    @handles(requests.GetKernelFateRequest)
    async def _kernel_fate(self, request: requests.GetKernelFateRequest) -> requests.KernelFate:
        return await self._keepers.fate(request.id)

    @handles(requests.EndKernelRequest)
    async def _end_kernel(self, request: requests.EndKernelRequest) -> requests.Ended:
        starting = self._starting.get(request.id)
        if starting is not None:  # a start in progress must not complete after this
            async with starting:
                pass
        return {"ended": await self._keepers.end(request.id, request.now, request.secret)}

    @handles(requests.GetKernelKeyRequest)
    async def _kernel_key(self, request: requests.GetKernelKeyRequest) -> requests.KernelKey:
        key = self._keepers.key(request.id)
        if key is None:
            message = "The kernel %s does not exist on the host." % request.id
            raise OperationError("NOT_FOUND", message)
        return {"key": key}

    @handles(requests.AskKernelSessionRequest)
    async def _kernel_session(
        self, request: requests.AskKernelSessionRequest
    ) -> requests.AskedKernel:
        if request.request is None:
            return {"kernel": await self._keepers.status(request.id)}
        return {"kernel": await self._keepers.ask_session(request.id, request.request)}

    @handles(requests.KeepWarmRequest)
    async def _keep_warm(self, request: requests.KeepWarmRequest) -> requests.WarmKernelList:
        self._request_warm(request.client, request.environments)
        return {"warm": self._warm.statuses()}

    def _request_warm(self, client: Any, environments: List[requests.WarmEnvironment]) -> None:
        requested: List[Dict[str, Any]] = []
        for environment in environments:
            imports, pod = environment.get("imports", []), environment.get("pod")
            tpu = environment.get("tpu")
            warm: Dict[str, Any] = {
                "python": environment["python"],
                "imports": imports,
                "env": _variables(environment.get("env"), tpu),
                "pod": None,
            }
            requested.append(warm)
            if pod:  # one of all hosts, too
                env = _variables(environment.get("pod_env"), tpu)
                imports = list(dict.fromkeys([*POD_IMPORTS, *imports]))
                requested.append({**warm, "imports": imports, "env": env, "pod": pod})
        self._warm.request(client, requested)

    @handles(requests.GetStatusRequest)
    async def _wait_status(self, request: requests.GetStatusRequest) -> DaemonStatus:
        self._request_warm(request.client, request.environments)
        return await self._status.wait(request)

    @handles(requests.GetLoadRequest)
    async def _load(self, request: requests.GetLoadRequest) -> requests.LoadList:
        return {"load": await self._status.load.latest()}

    @handles(requests.PrepareDeleteRequest)
    async def _prepare_delete(
        self, request: requests.PrepareDeleteRequest
    ) -> requests.EndedKernels:
        self._guard.remove()
        self._homes.remove()
        await self._jobs.stop_all()
        await self._runs.end_all()
        statuses = await self._keepers.statuses()
        await asyncio.gather(*(self._keepers.end(status["id"], now=True) for status in statuses))
        self._end_soon()
        return {"ended": len(statuses)}

    @handles(requests.EndDaemonRequest)
    async def _end_agent(self, request: requests.EndDaemonRequest) -> requests.Ended:
        awaited = self._runs.awaited(leaving=request.client)
        others = (
            len(self._connections) > 1 or self._keepers.folders or self._homes.active or awaited
        )
        idle = not others
        if idle:
            self._end_soon()
        return {"ended": idle}

    def _end_soon(self) -> None:
        # After the answer is sent.
        asyncio.get_running_loop().call_later(0.01, self._ended.set)


def _spec_from(request: requests.StartKernelRequest) -> Dict[str, Any]:
    """What a keeper is started with."""
    home = os.path.expanduser("~")
    cwd = os.path.expanduser(request.cwd or home)
    if not os.access(request.python, os.X_OK):
        raise OperationError(
            "ENVIRONMENT",
            "There is no Python at %s on the host." % request.python,
            "Connect the TPU again to create its missing environment.",
        )
    if os.path.realpath(cwd) == os.path.realpath(home) and request.mirror:
        mirror = os.path.expanduser(request.mirror)
        with contextlib.suppress(OSError):  # the sync says why
            os.makedirs(mirror, exist_ok=True)
            cwd = mirror
    names = "id", "launch", "python", "key", "secret", "environment", "notebook", "journal_limit"
    spec: Dict[str, Any] = {
        **{name: getattr(request, name) for name in names},
        "when_full": request.when_full,
        "env": _variables(request.env, request.tpu, request.zone, request.worker),
        "cwd": cwd if os.path.isdir(cwd) else home,
    }
    if request.pod:
        member = {name: spec[name] for name in ("python", "env", "cwd")}
        member["mirrored"] = cwd != home and bool(request.mirror)
        member["needs_chips"] = request.needs_chips
        member.update(kernel=request.id, notebook=request.notebook)
        spec["pod"] = {**request.pod, "member": member}
    return spec


def _variables(
    variables: Optional[Dict[str, str]], tpu: Optional[str], zone: str = "", host_number: int = 0
) -> Dict[str, str]:
    for_kernel = {}  # for what the kernel itself says
    if tpu:
        for_kernel["JUPYTER_TPU_NAME"] = tpu
    if zone:
        for_kernel.update(JUPYTER_TPU_ZONE=zone, JUPYTER_TPU_WORKER=str(host_number))
    return complete_variables({**(variables or {}), **for_kernel})


def _from_oserror(error: OSError) -> Dict[str, Any]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        message = "The host's disk is full."
        return {"reason": "DISK_FULL", "message": message, "hint": "Delete files on the host."}
    return {"reason": "INTERNAL", "message": "On the host: %s." % error, "hint": ""}


def _failure(number: Any, reason: str, message: str) -> bytes:
    return json_line({"id": number, "error": {"reason": reason, "message": message, "hint": ""}})
