"""The provisioner through which jupyter_client starts, watches and ends a kernel on a host."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any, Literal, get_args, get_origin, get_type_hints

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning import LocalProvisioner
from msgspec import structs
from traitlets import Bool, Enum, Float, Integer, Unicode

from ..agent_token import acts_as_agent, permitted_kernelspecs, refusal
from ..cloud import Target
from ..errors import TPUError
from ..links import HostName, Link, core_thread, default_links
from ..session_key import session_variables
from ..tokens import changed_variables, passed_variables
from . import persistence
from .config import KernelConfig
from .persistence import KernelPersistence
from .project import OFF, project_sync
from .relay import KernelRelay
from .requested import named_folder, without_chips

#: JAX uses the CPU. By the second variable an emulated host, where it always does, sees no chip.
_NO_CHIPS = {"JAX_PLATFORMS": "cpu", "TPU_VISIBLE_CHIPS": ""}
#: Running clean-ups of kernels that were reported dead; asyncio itself keeps no task alive.
_cleanups: set[asyncio.Future[None]] = set()


def _traits() -> dict[str, Any]:
    """The fields of `KernelConfig`."""
    hints = get_type_hints(KernelConfig, include_extras=True)
    traits: dict[str, Any] = {}
    for field in structs.fields(KernelConfig):
        (kind, *_), metas = get_args(hints[field.name]), hints[field.name].__metadata__
        settings = {"help": metas[-1].extra["option"].text}
        default: Any = "" if field.required else field.default
        if kind is bool:
            trait: Any = Bool(default, **settings)
        elif kind is int:
            trait = Integer(default, min=metas[0].ge, **settings)
        elif kind is float:
            trait = Float(default, **settings)
        elif get_origin(kind) is Literal:
            trait = Enum(get_args(kind), default, **settings)
        else:
            trait = Unicode(default, allow_none=default is None, **settings)  # type: ignore[call-overload]
        traits[field.name] = trait.tag(config=True)
    return traits


class TPUProvisioner(LocalProvisioner):
    """Runs the kernel of a kernelspec on a host of a TPU.

    LocalProvisioner chooses and returns ports and writes the connection file; there is no local
    process. Everything else is done by the :class:`KernelRelay`, on the core thread. The traits
    come from the kernelspec's ``metadata.kernel_provisioner.config``.
    """

    locals().update(_traits())

    _relay: KernelRelay | None = None
    _persistence: KernelPersistence | None = None
    _restart_limit: int | None = None  # of Jupyter's restarter, while it is kept from restarting
    notebook_folder = ""  # where a local kernel would start
    folder_is_named = False  # by its client; also after a restart
    _notebook = ""  # its path, if that has changed since the kernel started
    _answers_when_dead = False
    _for_agent = False  # no project is copied then: that is asked for, and kept in a folder
    _running = False  # between launch_kernel and the end of wait or cleanup
    _ports_known = False  # a client may have the ports
    _without_chips = False  # also after a restart

    # ---- start

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Chooses ports. An adopted kernel keeps the key that signs its messages.

        answers_when_dead: of `start_kernel`; for programs of ours, see :class:`KernelRelay`.
        """
        self._answers_when_dead = bool(kwargs.pop("answers_when_dead", False))
        if folder := named_folder.get():
            self.notebook_folder, self.folder_is_named = folder, True
        elif not self.folder_is_named:
            self.notebook_folder = str(kwargs.get("cwd") or os.getcwd())
        if arguments := kwargs.get("extra_arguments"):
            self.log.warning(
                "A kernel on a TPU takes no arguments. It starts without %s. Set variables with "
                "env= instead, or run the code in a first cell.",
                " ".join(arguments),
            )
        self._without_chips |= without_chips.get()
        if self._persistence is None and persistence.current is not None:
            self._persistence = persistence.current.persist(self)
            if (
                self._persistence is not None
                and self._persistence.adopting
                and self.parent is not None
            ):
                self.parent.session.key = self._persistence.key.encode()
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Starts or adopts the kernel. *cmd* is for clients without provisioners.

        Raises PERMISSION for a coding agent that no server has allowed it.
        """
        name = getattr(self.parent, "kernel_name", "")
        self._for_agent = acts_as_agent(kwargs.get("env", os.environ))
        if self._for_agent and name not in permitted_kernelspecs:
            raise refusal(f"a kernel of {self.chosen.tpu} here")
        if self._relay is None:
            self._relay = await core_thread().call(self._make_relay())
        try:
            if self._persistence is not None and self._persistence.adopting:
                self._ports_known = True
                await core_thread().call(self._relay.adopt(self.connection_info))
                self._persistence.end_adoption()
            else:
                await self._launch(kwargs.get("env", {}))
        except BaseException:
            # jupyter_client calls no cleanup after this.
            self._relay = self._persistence = None
            await super().cleanup()  # returns the port numbers
            if not self._ports_known and self.ports_cached and self.parent is not None:
                # Another program may have one of them by the next start, which chooses others.
                self.ports_cached = False
                self.parent.cleanup_connection_file()
            raise
        self._running = self._ports_known = True
        restarter = getattr(self.parent, "_restarter", None)
        if restarter is not None and self._restart_limit is not None:
            restarter.restart_limit, self._restart_limit = self._restart_limit, None
            restarter.remove_callback(self._cleanup_dead, "dead")
        return self.connection_info

    async def _launch(self, environment: dict[str, str]) -> None:
        assert self._relay is not None
        # It reads files. In a fork, the threads of the caller's loop are not there.
        request = await core_thread().call(asyncio.to_thread(self._start_request, environment))
        try:
            await core_thread().call(
                self._relay.launch(self.connection_info, request, self.chosen.start_timeout)
            )
        except BaseException as error:
            if persistence.current is not None and isinstance(error, TPUError):
                persistence.current.report_refused()
            if self._persistence is not None:
                self._persistence.discard()  # there is nothing to adopt
            raise

    async def _make_relay(self) -> KernelRelay:
        return KernelRelay(
            self.host(),
            str(self.kernel_id),
            self._persistence,
            notebook_folder=self.notebook_folder,
            sync=OFF
            if self._for_agent
            else project_sync(self.chosen.project_sync, named=self.folder_is_named),
            owned=self._persistence is None,
            answers_when_dead=self._answers_when_dead or self._persistence is not None,
        )

    def host(self, number: int | None = None) -> Link:
        """The link to the kernel's host, or to another one; call it on the core loop."""
        place = self.chosen
        target = Target(emulator=place.emulator, project=place.project or None, zone=place.zone)
        worker = place.worker if number is None else number
        return default_links(target).get(HostName(place.node, worker))

    @property
    def chosen(self) -> KernelConfig:
        """Its traits."""
        return KernelConfig(
            **{name: getattr(self, name) for name in KernelConfig.__struct_fields__}
        )

    def _start_request(self, environment: dict[str, str]) -> dict[str, Any]:
        # This machine's environment does not fit the host. What is passed: the tokens that the user
        # chose, what the client has added or changed, and the kernelspec's variables.
        names = [*getattr(self.kernel_spec, "env", {}), "JPY_SESSION_NAME"]
        agents = self.chosen.of_agent or acts_as_agent(environment)
        variables = {
            **session_variables(agents=agents),
            **passed_variables(agents=agents),
            **changed_variables(environment),
            **{name: environment[name] for name in names if name in environment},
            **(_NO_CHIPS if self._without_chips else {}),
        }
        notebook = self._notebook or environment.get("JPY_SESSION_NAME", "")
        return self.chosen.start_request(variables, notebook, without_chips=self._without_chips)

    # ---- watch

    @property
    def has_process(self) -> bool:
        return self._running

    async def poll(self) -> int | None:
        """None while the kernel is alive, or may be, because its link is down."""
        if self._relay is None or not self._running:
            return 0
        if self._relay.final:
            self._prevent_restart()
        elif self._relay.code is not None:
            self._keep_ports()
        return self._relay.code

    def _keep_ports(self) -> None:
        """Keeps Jupyter's restarter from choosing new ports, which its clients would not know.

        It does so for kernels that die soon after their start, because a port may be in use. Ours
        are bound already. An adopted kernel may have been running for days.
        """
        restarter = getattr(self.parent, "_restarter", None)
        if restarter is not None:
            restarter.random_ports_until_alive = False

    def _prevent_restart(self) -> None:
        """Keeps Jupyter's restarter, which is about to see the kernel's end, from restarting it.

        It then reports the kernel dead, once. The TPU may be gone.
        """
        restarter = getattr(self.parent, "_restarter", None)
        if restarter is not None and restarter.restart_limit:
            self._restart_limit = restarter.restart_limit
            restarter.restart_limit = 0
            restarter.add_callback(self._cleanup_dead, "dead")

    def _cleanup_dead(self) -> None:
        """The server has reported the kernel dead: frees what it used here."""
        restarter = getattr(self.parent, "_restarter", None)
        if restarter is not None:
            restarter.remove_callback(self._cleanup_dead, "dead")
        cleanup = asyncio.ensure_future(self._clean_up(keep_running=True))
        _cleanups.add(cleanup)
        cleanup.add_done_callback(_cleanups.discard)

    async def wait(self) -> int | None:
        """Waits until the kernel has ended. Returns its exit code."""
        code: int | None = 0
        if self._relay is not None and self._running:
            code = await core_thread().call(self._relay.wait_ended())
            self._running = False
        return code

    def rename(self, notebook: str) -> None:
        """The kernel's notebook has another path now; called by the server."""
        self._notebook = notebook
        if self._relay is not None:
            core_thread().loop.call_soon_threadsafe(self._relay.rename, notebook)

    async def send_signal(self, signum: int) -> None:
        """Sends a signal to the kernel's process group on the host. SIGINT interrupts."""
        if self._relay is not None:
            core_thread().loop.call_soon_threadsafe(self._relay.signal, int(signum))

    # ---- end

    async def terminate(self, restart: bool = False) -> None:
        await self.send_signal(signal.SIGTERM)

    async def kill(self, restart: bool = False) -> None:
        """Ends the kernel and its child processes at once."""
        if self._relay is not None:
            core_thread().loop.call_soon_threadsafe(self._relay.kill)

    async def cleanup(self, restart: bool = False) -> None:
        """Returns when the kernel is gone from its host. Frees the ports."""
        await self._clean_up(restart=restart)

    async def _clean_up(self, *, restart: bool = False, keep_running: bool = False) -> None:
        if self._relay is not None:
            cleaning = self._relay.cleanup(restart=restart, keep_running=keep_running)
            await asyncio.shield(core_thread().call(cleaning))
            if not restart:
                self._relay = None
        if self._persistence is not None and not restart:
            self._persistence.discard()
            self._persistence = None
        self._running = False
        await super().cleanup(restart=restart)

    async def detach(self) -> None:
        """Detaches from the kernel, which continues, so that the next server can adopt it.

        For jupyter_client the kernel is dead after this, and attempts to end it have no effect.
        A kernel that is still starting is not detached.
        """
        if not self._running:
            return
        relay, self._relay, self._running = self._relay, None, False
        persisted, self._persistence = self._persistence, None
        if relay is not None:
            await core_thread().call(relay.detach())
        if persisted is not None:
            persisted.release()

    def get_shutdown_wait_time(self, recommended: float = 5.0) -> float:
        """A distant host takes a few round trips more than a local kernel."""
        return recommended + 2.0

    def resolve_path(self, path: str) -> str | None:
        """Paths on this machine are not valid on the host."""
        return None

    async def get_provisioner_info(self) -> dict[str, Any]:
        """What a later process needs to find the kernel again. The secret gives it the lease."""
        info = await super().get_provisioner_info()
        info["secret"] = self._relay.secret if self._relay is not None else ""
        return info
