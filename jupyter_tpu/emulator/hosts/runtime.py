"""Boots hosts in the best way that this machine allows, and ends every one of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ...errors import InvalidInput, Reason, TPUError
from ...paths import private_dir
from . import etc, fallback_host
from .boot_script import BOOT_FILE, boot_script, unshare_command
from .host_files import CACHE, free_port, prepare_host, prepare_shared_files, remove_tree
from .namespace_host import NamespaceHost
from .spec import HostSpec

T = TypeVar("T")

# From best to least; each is tried until one works.
MODES = ("root", "subuid", "user", "fallback")
_PROGRAMS = ("unshare", "nsenter", "setpriv", "mount", "umount", "pivot_root", "ssh-keygen")
_TRIAL_SECONDS = 20.0
_PORT_22 = "sshd is not on port 22 but on the port in guest attribute ssh/port."
_SKIPPED: dict[str, tuple[str, ...]] = {
    "root": (),
    "subuid": (_PORT_22,),
    "user": (
        _PORT_22,
        "All users of a host are one: different names, the same uid and the same rights.",
        "Packages whose files need other owners can't be installed on a host.",
    ),
    "fallback": fallback_host.SKIPPED,
}


class RunningHost(Protocol):
    """A host that is up: its sshd accepts connections."""

    port: int
    """sshd's port, on the address of the spec."""

    host_keys: dict[str, str]
    """``ssh-ed25519`` → base64 value, as guest attributes show them."""

    init_pid: int
    """The process, by its number on this machine, whose death ends the host."""

    @property
    def ended(self) -> bool:
        """Whether it is down, by `stop` or on its own."""

    async def set_users(self, keys: Mapping[str, Sequence[str]]) -> None:
        """Makes *keys* (user → public key lines) the host's users, as Google's guest agent does.

        New users get a home, a shell and sudo. Users that are no longer named keep their home and
        lose the keys given here; keys that they wrote themselves stay.
        Raises TPUError (INVALID) for an impossible user name.
        """

    async def processes(self) -> list[dict]:
        """All processes of the host: ``pid`` (there), ``name``, ``cmdline`` (list of str)."""

    async def cut_links(self) -> None:
        """Ends all SSH connections. The host's processes continue."""

    async def wait_ended(self) -> None:
        """Returns when the host has ended, for whatever reason."""

    async def stop(self) -> None:
        """Ends all its processes at once, daemons too, like a power cut."""


class Runtime:
    """The hosts of one state folder.

    Attributes
    ----------
    mode: "root", "subuid", "user" or "fallback".
    skipped: sentences on what this mode lacks compared with a real TPU VM.
    max_hosts: how many hosts can be up at once; None for no limit.
    """

    def __init__(self, folder: Path, mode: str, skipped: Sequence[str] = ()) -> None:
        self.folder = folder
        self.mode = mode
        self.skipped = (*_SKIPPED[mode], *skipped)
        self.max_hosts: int | None = 1 if mode == "fallback" else None
        self._running: dict[Path, RunningHost] = {}
        self._shared = asyncio.Lock()  # the first host makes what all share

    @classmethod
    async def probe(cls, folder: Path, mode: str | None = None) -> Runtime:
        """Finds the best mode by booting a host in each, or tries just *mode*.

        Parameters
        ----------
        folder: where what hosts share is kept (the uv cache and, for an unprivileged user, the
            skeleton, which takes some seconds the first time); made with mode 0700.

        Raises TPUError: INVALID for an unknown *mode*, UNAVAILABLE if it does not work here.
        """
        if mode is not None and mode not in MODES:
            raise InvalidInput(
                f"The host mode {mode} does not exist.",
                f"Choose one of {', '.join(MODES)}.",
            )
        private_dir(folder)
        problem = ""
        for candidate in MODES if mode is None else (mode,):
            runtime = cls(folder, candidate, [f"Why: {problem}"] if problem else [])
            try:
                await runtime._trial_boot()
            except TPUError as error:
                if mode is not None:
                    raise TPUError(
                        f"Hosts can't run in the mode {mode!r} here: {error.message}",
                        Reason.UNAVAILABLE,
                        error.hint,
                    ) from None
                if candidate != "root" or os.geteuid() == 0:
                    problem = f"{error.message} {error.hint}".strip()
            else:
                return runtime
        raise AssertionError("the fallback needs no trial")

    async def _trial_boot(self) -> None:
        """Boots and ends a host. Raises TPUError if that fails."""
        if self.mode == "fallback":
            return
        await self._try_namespaces()
        for left in (*self.folder.glob("trial-*"), *self.folder.glob("skeleton-*")):
            await asyncio.to_thread(remove_tree, left, self.mode)  # a killed emulator's
        folder = Path(tempfile.mkdtemp(prefix="trial-", dir=self.folder))
        spec = HostSpec(
            node_id="trial",
            worker=0,
            hostname="trial",
            # Its own (those of nodes end with 2 or more): other emulators may try just now.
            address=f"127.{1 + secrets.randbelow(250)}.{secrets.randbelow(250)}.1",
            environment={},
            folder=folder,
        )
        try:
            host = await self.start(spec)
            await host.set_users({"trial": []})
        finally:
            await self.destroy(spec)

    async def _try_namespaces(self) -> None:
        """The quick part of a trial: the programs, and the namespaces alone."""
        if sys.platform != "linux":
            raise TPUError("Only Linux has namespaces.", Reason.UNAVAILABLE)
        missing = [name for name in _PROGRAMS if shutil.which(name, path=etc.PATH) is None]
        if etc.sshd_program() is None:
            missing.append("sshd")
        if self.mode == "subuid" and shutil.which("newuidmap", path=etc.PATH) is None:
            missing.append("newuidmap")
        if missing:
            raise TPUError(
                f"Not installed: {', '.join(missing)}.",
                Reason.UNAVAILABLE,
                "On Debian and Ubuntu: apt-get install openssh-server util-linux uidmap.",
            )
        if self.mode == "root" and os.geteuid() != 0:
            raise TPUError("This mode needs root.", Reason.UNAVAILABLE)
        process = await asyncio.create_subprocess_exec(
            *unshare_command(self.mode),
            *("mount", "-t", "proc", "proc", "/proc"),
            env={"PATH": etc.PATH, "LC_ALL": "C"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_TRIAL_SECONDS):
                _, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise TPUError("Creating namespaces timed out.", Reason.UNAVAILABLE) from None
        if process.returncode:
            text = errors.decode(errors="replace").strip().replace("\n", " ")
            raise TPUError(f"Linux namespaces are not permitted here ({text}).", Reason.UNAVAILABLE)

    async def start(self, spec: HostSpec) -> RunningHost:
        """Boots the host of *spec*, for the first time or again; its home is as it was left.

        Raises TPUError: CONFLICT if it runs, NO_CAPACITY above `max_hosts`, INVALID for variables
        that can't be passed on, UNAVAILABLE or TIMEOUT if it does not come up.
        """
        self._running = {path: host for path, host in self._running.items() if not host.ended}
        if spec.folder in self._running:
            raise TPUError(f"{spec.hostname} is already running.", Reason.CONFLICT)
        if self.max_hosts is not None and len(self._running) >= self.max_hosts:
            raise TPUError(
                f"This machine can run only {self.max_hosts} emulated host.",
                Reason.NO_CAPACITY,
                "Choose a type with one host, and stop or delete the other TPU first.",
            )
        port = free_port(spec.address, self.mode)
        host: NamespaceHost | fallback_host.FallbackHost
        if self.mode == "fallback":
            private_dir(spec.folder)
            await _in_thread(prepare_shared_files, self.folder, self.mode)
            await _in_thread(remove_tree, spec.folder / "tmp", self.mode)
            host = fallback_host.FallbackHost(spec, port, self.folder / CACHE)
            await host.boot()
        else:
            async with self._shared:
                await _in_thread(prepare_shared_files, self.folder, self.mode)
            plan = await _in_thread(prepare_host, spec, self.mode, port, self.folder)
            keys = etc.host_keys(spec.folder / "upper")
            host = NamespaceHost(spec, port, keys, self.mode)
            (spec.folder / BOOT_FILE).write_text(boot_script(plan))
            await host.boot((*unshare_command(self.mode), "sh", BOOT_FILE))
        self._running[spec.folder] = host
        return host

    async def destroy(self, spec: HostSpec) -> None:
        """Stops the host if it runs and removes its files."""
        host = self._running.pop(spec.folder, None)
        if host is not None:
            await host.stop()
        await asyncio.to_thread(remove_tree, spec.folder, self.mode)

    async def close(self) -> None:
        """Ends all hosts; their files stay."""
        running, self._running = self._running, {}
        await asyncio.gather(*(host.stop() for host in running.values()))


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """`asyncio.to_thread`, but cancelled only when the thread has ended: what it writes is removed
    by whoever cancels.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.gather(work, return_exceptions=True)
        raise
