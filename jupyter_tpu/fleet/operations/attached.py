"""Attaching a machine that is reached by SSH alone, and forgetting it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Callable

from msgspec import structs

from ... import environment, ssh
from ...cloud import (
    AttachedMachine,
    AttachedMachines,
    NodeName,
    attached_name,
    is_attached,
    name_in_use,
)
from ...environment import StepPlan
from ...errors import InvalidInput, Reason, TPUError
from ...links import HostName, host_alias
from ...retired import refuse_tpu_node_address
from ...ssh import user_host
from ..discovery.observer import Observer
from ..hosts.job_views import FINAL
from ..hosts.kernels import shut_down_error
from ..knowledge.finder import TPUFinder
from ..models import TPU, AttachMachine, DetachMachine, Job, MachineCheck, Operation
from ..models.requests import validated
from ..models.times import timestamp
from .connected import ConnectedTPUs
from .power import CANCEL_CONNECT
from .progress import Progress
from .runner import OperationRunner
from .tensorboard import TensorBoardService

#: Seconds to wait for the first list of TPUs.
_LIST_LIMIT = 10.0


class AttachedService:
    """The fleet's part ``attached``. shown(name): how a TPU is shown."""

    def __init__(
        self,
        finder: TPUFinder,
        observer: Observer,
        connected: ConnectedTPUs,
        tensorboard: TensorBoardService,
        runner: OperationRunner,
        shown: Callable[[NodeName], TPU],
    ) -> None:
        self._machines = AttachedMachines()
        self._finder = finder
        self._observer = observer
        self._connected = connected
        self._tensorboard = tensorboard
        self._runner = runner
        self._shown = shown
        self._attaching = asyncio.Lock()

    async def check(self, request: AttachMachine) -> MachineCheck:
        refuse_tpu_node_address(request.ssh)
        host, shown = await self._look(validated(request))
        return MachineCheck(
            name=_name(request),
            ssh=request.ssh,
            address=host.address,
            port=host.port,
            user=host.user,
            host_key=shown.fingerprint,
            known=shown.known,
        )

    async def attach(self, request: AttachMachine) -> TPU:
        refuse_tpu_node_address(request.ssh)
        request = validated(request)
        name = _name(request)
        async with self._attaching:  # pressed twice: the second one finds it
            there = await asyncio.to_thread(self._machines.find, name)
            if there is not None and there.alias != request.ssh:
                raise name_in_use(name)
            if there is None:
                await self._require_free(name)
                there = await self._examined(name, request)
                await asyncio.to_thread(self._machines.add, there)
        self._observer.upsert(there.node)
        return self._shown(attached_name(name))

    async def detach(self, ref: str, options: DetachMachine | None = None) -> Operation:
        options = validated(options or DetachMachine())
        name = await self._finder.find(ref)
        if not is_attached(name):
            raise TPUError(
                f"{name.node} is a Cloud TPU, not an attached machine.",
                Reason.CONFLICT,
                "`jupyter tpu disconnect` removes its kernels from Jupyter, and `jupyter tpu "
                "delete` deletes it.",
            )
        await self._connected.require_confirmation(
            name, "Detaching", end_kernels=options.end_kernels, end_jobs=options.end_jobs
        )
        await self._runner.cancel_connects(name, CANCEL_CONNECT)
        return await self._runner.start_exclusive(
            self._runner.new_record("detach", name), lambda progress: self._detach(name, progress)
        )

    # ---- attaching -------------------------------------------------------------------------

    async def _require_free(self, name: str) -> None:
        """A name of a TPU would be ambiguous from then on. Raises EXISTS."""
        with contextlib.suppress(TimeoutError):  # a machine needs no cloud that answers
            async with asyncio.timeout(_LIST_LIMIT):
                await self._observer.ensure_recent()
        others = [each for each in self._observer.observed.nodes if not is_attached(each)]
        if same := [each for each in others if each.node == name]:
            raise TPUError(
                f"{name} is the name of a TPU in {same[0].zone}.",
                Reason.EXISTS,
                "Choose another name for the machine, with --name.",
            )

    async def _look(self, request: AttachMachine) -> tuple[user_host.UserHost, user_host.ShownKey]:
        host = await user_host.resolve(request.ssh)
        return host, await user_host.shown_key(host)

    async def _examined(self, name: str, request: AttachMachine) -> AttachedMachine:
        """Connects, and asks what the machine is. It leaves our key there, and its key here."""
        host, shown = await self._look(request)
        if request.host_key and request.host_key != shown.fingerprint:
            raise TPUError(
                f"{request.ssh} shows the host key {shown.fingerprint}, and not the expected "
                f"{request.host_key}. It was not attached.",
                Reason.HOST_KEY,
                "Someone may be intercepting the connection. Compare the fingerprint again.",
            )
        if not (shown.known or request.host_key):
            raise TPUError(
                f"The host key of {request.ssh} is not in your known hosts: {shown.fingerprint}.",
                Reason.HOST_KEY,
                f"Connect once with `ssh {request.ssh}` and check it there, or compare the "
                "fingerprint and give it with --host-key.",
            )
        identity = await asyncio.to_thread(ssh.ensure_key)
        id = f"attached-{secrets.token_hex(8)}"
        where = HostName(attached_name(name), 0)
        address = host.host_address(
            host_keys=(shown.key,),
            alias=host_alias(id, where.worker),
            name=request.ssh,
            identity_file=identity,
        )
        connection = await self._connect(host, address)
        try:
            machine = await environment.describe_machine(_ConnectedHost(where, connection))
        finally:
            await connection.close()
        pinned = f"{where.node.path}/{where.worker}"
        await asyncio.to_thread(
            ssh.KnownHosts().pin, {address.alias: address.host_keys}, {address.alias: pinned}
        )
        return AttachedMachine(
            name=name,
            id=id,
            alias=request.ssh,
            user=host.user,
            address=host.address,
            internal=machine.address,
            chips=tuple(machine.chips),
            created=timestamp(),
        )

    async def _connect(self, host: user_host.UserHost, address: ssh.HostAddress) -> ssh.Connection:
        """Our key is added to those that may log in, if it is not there yet."""
        try:
            return await ssh.connect(address)
        except TPUError as error:
            if error.reason is not Reason.PERMISSION:
                raise
        public = await asyncio.to_thread(ssh.public_key, address.identity_file)
        await user_host.authorize(host, address.host_keys[0], public)
        try:
            return await ssh.connect(address)
        except TPUError as error:
            if error.reason is not Reason.PERMISSION:
                raise
            raise TPUError(
                f"{host.alias} refuses the key of jupyter-tpu, which was just added to "
                "~/.ssh/authorized_keys there.",
                Reason.PERMISSION,
                "Its sshd may read keys elsewhere: see AuthorizedKeysFile in its sshd_config.",
            ) from error

    # ---- detaching -------------------------------------------------------------------------

    async def _detach(self, name: NodeName, progress: Progress) -> None:
        progress.plan(
            [
                StepPlan("kernels", "Shut down kernels", 1),
                StepPlan("jobs", "Stop jobs", 1),
                StepPlan("forget", "Forget the machine", 1),
            ]
        )
        why = shut_down_error(f"detach {name.node}", "Choose the kernel of another TPU.")
        await self._connected.shut_down_kernels(name, why, progress)
        await self._tensorboard.stop(name)
        progress.begin("jobs")
        await self._stop_jobs(name, progress)
        progress.done("jobs")
        progress.begin("forget")
        self._connected.forget(name)
        await asyncio.to_thread(self._machines.remove, name.node)
        self._observer.remove(name)
        progress.done("forget")

    async def _stop_jobs(self, name: NodeName, progress: Progress) -> None:
        """Says of each job that is not known to have ended that it may go on."""
        ref = f"{name.zone}~{name.node}"
        jobs = self._connected.jobs
        running = [job for job in await jobs.list(ref) if not job.over]

        async def stop(job: Job) -> None:
            stopped = await jobs.stop(ref, job.id)
            for host in stopped.attempts[-1].hosts:
                if host.state == "stopping":
                    progress.log(f"{job.name} ({job.id}) is being stopped by the machine")
                elif host.state not in FINAL:
                    progress.log(f"{job.name} ({job.id}) may go on: {host.cause}")

        await environment.gather_or_cancel([stop(job) for job in running])


class _ConnectedHost:
    """A :class:`~jupyter_tpu.environment.RemoteHost` without a link: there is none yet."""

    def __init__(self, host: HostName, connection: ssh.Connection) -> None:
        self.host = host
        self.run = connection.run


def _name(request: AttachMachine) -> str:
    """The machine's name here; from "me@Box.example.com" that is "box"."""
    if request.name is not None:
        return request.name
    short = request.ssh.rpartition("@")[2].lower()
    if not re.fullmatch(r"[\d.]+", short):
        short = short.partition(".")[0]
    short = re.sub(r"[^a-z0-9]+", "-", short).strip("-")
    try:
        return validated(structs.replace(request, name=short)).name or short
    except InvalidInput:
        raise InvalidInput(
            f"No name can be made from {request.ssh!r}.", "Choose one, with --name."
        ) from None
