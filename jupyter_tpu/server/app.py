"""The server extension: its options and its parts."""

from __future__ import annotations

import asyncio
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool, Dict, Enum, List, TraitError, Unicode, Union, validate

from ..errors import Reason, TPUError
from .events import CHANGE, REFUSED_SCHEMA, SCHEMA
from .first_request import add_at_first_request
from .fleet_handle import FleetHandle
from .kernel_errors import explain_kernel_errors, hide_launchers
from .languages import translate_events

if TYPE_CHECKING:
    from ..cloud import Target
    from ..fleet.models import Change
    from .adoption import Adoption
    from .jax import JaxService
    from .local_emulator import LocalEmulator
    from .proxy import ProxyPorts


class JupyterTPU(ExtensionApp):
    """Google Cloud TPUs as part of the notebook. Options: ``c.JupyterTPU.…``"""

    name = "jupyter_tpu"
    load_other_extensions = True

    emulator = Union(
        [Bool(), Unicode()],
        default_value=False,
        help="True: start an emulator of Cloud TPU with the server. A path: the state file of a "
        "running emulator, as in JUPYTER_TPU_EMULATOR.",
    ).tag(config=True)
    project = Unicode(help="The Google Cloud project. Default: gcloud's project.").tag(config=True)
    zone = Unicode(help="The default zone. Default: gcloud's zone.").tag(config=True)
    api = Enum(
        ["", "tpu", "compute"],
        default_value="",
        help="What makes a TPU that both of Google's control planes offer: the Cloud TPU API "
        "(tpu) or Compute Engine (compute). Default: what the project has quota for.",
    ).tag(config=True)
    ssh_key = Unicode(
        help="The private SSH key. Default: a key that is created in Jupyter's data folder."
    ).tag(config=True)

    keep_kernels = Bool(
        True,
        help="Kernels on TPUs continue when the server stops, and the next server of the same "
        "folder adopts them. False: they end with the server, as local kernels do.",
    ).tag(config=True)

    warm_kernels = Bool(
        None,
        allow_none=True,
        help="Start a warm kernel in each environment of a connected TPU, so that the next kernel "
        "is available at once. A warm kernel has imported only ipykernel, uses no chip, and takes "
        "about 80 MB of the host's memory. On a TPU of several hosts a warm pod kernel has also "
        "imported JAX, and takes about 200 MB on each host. Default: True, but False on emulated "
        "TPUs, which use this machine's memory. `jupyter tpu kernel warm` sets it for one "
        "environment.",
    ).tag(config=True)

    environment_defaults = Dict(
        help="What each new environment on a TPU gets, in addition to what is asked for: "
        '{"python": "3.12", "packages": ["flax"], "apt": ["ffmpeg"], "timezone": "Europe/Berlin", '
        '"oh_my_zsh": True, "setup_script": "~/setup.sh"}, or some of these. An environment from a '
        "lock keeps the lock's versions.",
    ).tag(config=True)

    proxy_ports = List(
        Unicode(),
        help="Ports of TPUs that are also available under Jupyter's own address, at "
        'BASE_URL/jupyter-tpu/proxy/TPU/HOST/PORT/: ["my-tpu:6006"]. For browsers that can reach '
        "only Jupyter, for example behind a JupyterHub. Such a page can do everything that you can "
        "do in Jupyter (start terminals, read and change notebooks), so allow only ports that you "
        "trust. Other ports are refused.",
    ).tag(config=True)

    @validate("proxy_ports")
    def _check_proxy_ports(self, proposal: Any) -> list[str]:
        if proposal.value:
            from .proxy import ProxyPorts

            try:
                ProxyPorts(proposal.value)
            except TPUError as error:
                raise TraitError(f"{error.message} {error.hint}") from None
        return cast(list[str], proposal.value)

    @validate("environment_defaults")
    def _check_environment_defaults(self, proposal: Any) -> dict[str, Any]:
        if proposal.value:
            from ..fleet import EnvironmentDefaults

            try:
                EnvironmentDefaults.read(proposal.value).check()
            except TPUError as error:
                raise TraitError(f"{error.message} {error.hint}") from None
        return cast(dict[str, Any], proposal.value)

    @property
    def _adopts_kernels(self) -> bool:
        """With a gateway, the server's kernels are those of another machine."""
        assert self.serverapp is not None
        return self.keep_kernels and not self.serverapp.gateway_config.gateway_enabled

    def initialize(self) -> None:  # type: ignore[override]
        super().initialize()
        assert self.serverapp is not None
        explain_kernel_errors(self.serverapp.web_app, self.serverapp.log)
        hide_launchers(self.serverapp.web_app)
        translate_events(self.serverapp.web_app)
        add_at_first_request(self.serverapp.web_app, self._all_handlers)
        self._adoption: Adoption | None = None
        self._certificate: Path | None = None
        if self._adopts_kernels:
            from .adoption import Adoption

            self._adoption = Adoption(self.serverapp, self._kernel_lost)
            self._adoption.start()

    def initialize_handlers(self) -> None:
        assert self.serverapp is not None
        self._loop = self.serverapp.io_loop
        self._local: LocalEmulator | None = None
        self._state_file: str | None = None
        if self.ssh_key:
            # Launchers of kernels are other processes, which must use the same key.
            os.environ["JUPYTER_TPU_SSH_KEY"] = self.ssh_key
        if self.api:
            os.environ["JUPYTER_TPU_API"] = self.api
        self.fleet = FleetHandle(
            self._target,
            self._changed,
            self._take_over_kernel if self._adopts_kernels else None,
            self._restart_kernel,
            warm_kernels=self.warm_kernels,
            environment_defaults=self.environment_defaults,
            path_under_server=lambda app: self._ports.path(app),
            agent_folder=self.serverapp.root_dir,
        )
        assert self.serverapp.event_logger is not None
        for schema in (SCHEMA, REFUSED_SCHEMA):
            self.serverapp.event_logger.register_event_schema(schema)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        """Continues what earlier servers left. Nothing waits for it."""
        if serverapp.certfile:
            from ..fleet.servers import write_certificate

            try:
                self._certificate = write_certificate(serverapp.certfile)
            except OSError as error:
                self.log.warning("Commands may not trust this server's certificate: %s", error)
        if self._something_to_do():
            self._loop.add_callback(self._open)

    async def stop_extension(self) -> None:
        if self._adoption is not None:
            await self._adoption.stop()
        if self._certificate is not None:
            self._certificate.unlink(missing_ok=True)
        try:
            await self.fleet.close()
        finally:
            if "jax" in vars(self):
                await self.jax.close()

    @cached_property
    def jax(self) -> JaxService:
        from .jax import JaxService

        return JaxService()

    # ---- inside ----

    @cached_property
    def _ports(self) -> ProxyPorts:
        from .proxy import ProxyPorts

        return ProxyPorts(self.proxy_ports)

    def _all_handlers(self) -> list[Any]:
        from .table import table

        return table(self.fleet, self.jax, self._ports, lambda: self._state_file)

    def _something_to_do(self) -> bool:
        from ..paths import data_dir

        return bool(self.emulator) or (data_dir() / "fleet.sqlite").exists()

    async def _open(self) -> None:
        try:
            await self.fleet.open()
        except TPUError as error:
            # The panel shows it, too. The next request tries again.
            self.log.warning("TPUs can't be managed now: %s", error)

    async def _target(self) -> Target:
        """On the core thread."""
        from ..cloud import Target

        state_file: str | None = None
        if self.emulator is True:
            if self._local is None:
                from .local_emulator import LocalEmulator

                self._local = LocalEmulator()
            state_file = await self._local.state_file()
            # Terminals and kernels of this server use the same emulator.
            os.environ["JUPYTER_TPU_EMULATOR"] = state_file
        elif self.emulator:
            state_file = str(self.emulator)
        self._state_file = state_file
        return Target.from_environment(
            emulator=state_file, project=self.project or None, zone=self.zone or None
        )

    def _changed(self, change: Change) -> None:
        """Called on the core thread, where the change may not be used after this."""
        import msgspec

        data = msgspec.to_builtins(change)
        self._loop.add_callback(self._emit, data)
        kernel = change.kernel
        if (
            kernel is not None
            and kernel.state != "dead"
            and self._adoption is not None
            and self._adoption.is_damaged(kernel.id)
        ):
            ref = f"{kernel.zone}~{kernel.tpu}"
            self._loop.add_callback(self._tell_fleet, "kernels.take_over", ref, kernel.id)

    def _emit(self, data: dict[str, Any]) -> None:
        assert self.serverapp is not None
        assert self.serverapp.event_logger is not None
        self.serverapp.event_logger.emit(schema_id=CHANGE, data=data)

    def _kernel_lost(
        self, id: str, where: dict[str, str], notebook: str, problem: TPUError
    ) -> None:
        """A kernel of this server died: the fleet shows it."""
        self._loop.add_callback(
            self._tell_fleet, "kernels.report_lost", id, where, notebook, problem
        )

    async def _take_over_kernel(self, *arguments: str) -> None:
        """Called on the core thread: takes a kernel over for the fleet."""
        assert self._adoption is not None
        taking = self._adoption.take_over(*arguments)
        loop = cast(Any, self._loop).asyncio_loop
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(taking, loop))

    async def _restart_kernel(self, kernel_id: str) -> None:
        """Called on the core thread: restarts a kernel of this server for the fleet."""
        assert self.serverapp is not None
        kernels: Any = self.serverapp.kernel_manager

        async def restart() -> None:
            if kernel_id not in kernels:
                raise TPUError(
                    "This Jupyter server does not have the kernel.",
                    Reason.CONFLICT,
                    "Take it over first, or restart it where its notebook is open.",
                )
            await kernels.restart_kernel(kernel_id)

        loop = cast(Any, self._loop).asyncio_loop
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(restart(), loop))

    async def _tell_fleet(self, method: str, *arguments: Any) -> None:
        try:
            await self.fleet.call(method, *arguments)
        except TPUError as error:
            self.log.info("TPUs: %s: %s", method, error)


TPUExtension = JupyterTPU
