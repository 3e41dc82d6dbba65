"""A host's folder on the disk: prepared before each boot, removed with the host."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import stat
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ...errors import Reason, TPUError
from . import etc, machine
from .boot_script import BootPlan
from .skeleton import OPAQUE, SKELETON, ensure_skeleton
from .spec import HostSpec

CACHE = "uv-cache"
_CLEAR_SECONDS = 600.0
_DOCKER = ("docker*", "containerd*", "ctr", "runc")
_PYTHON_TOOLS = ("ensurepip", "venv", "pip", "pip-*", "virtualenv", "virtualenv-*")
_EMPTY = ("boot", "media", "mnt", "srv", "dev", "proc", "sys", "run", "home", "root", "tmp")


def prepare_shared_files(state: Path, mode: str) -> None:
    """Makes what all hosts of *state* share, if it is missing.

    In the uv cache, what any user of any host leaves, all others can use.
    """
    cache = state / CACHE
    if not cache.exists():
        cache.mkdir()
        open_for_all(cache)
    if mode in ("subuid", "user"):
        ensure_skeleton(state)


def prepare_host(spec: HostSpec, mode: str, port: int, state: Path) -> BootPlan:
    """Makes or refreshes the folder of *spec*. Returns what its boot has to do.

    *state* has been through `prepare_shared_files`.
    """
    folder = spec.folder
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("home", "private", "keys", "upper", "work", "root", "tmp", "vartmp", "skeleton"):
        (folder / name).mkdir(exist_ok=True)
    for name in ("tmp", "vartmp"):
        if any((folder / name).iterdir()):
            remove_tree(folder / name, mode)
            (folder / name).mkdir()
        (folder / name).chmod(0o1777)
    for name in ("home", "keys", "upper", "root"):
        (folder / name).chmod(0o755)
    (folder / "private").chmod(0o711)  # Pythons from under the real /root are bound below it
    hidden = machine.hidden_folders([state])
    layers = _create_layers(folder, hidden, "trusted.overlay.opaque" if mode == "root" else OPAQUE)
    etc.write_etc(folder / "upper", spec, single_uid=mode == "user")
    etc.write_ssh(folder / "upper", spec, port, variables=host_variables(spec))
    for pattern in _removed(spec):
        _white_out(folder / "upper", pattern)
    startup = folder / "startup-script"
    startup.write_text(spec.startup_script)
    interpreters = _interpreters(spec)
    return BootPlan(
        mode=mode,
        hostname=spec.hostname,
        keys=folder / "keys",
        layers=layers,
        skeleton=None if mode == "root" else state / SKELETON,
        shared=_shared(spec, hidden, interpreters.folders),
        cache=state / CACHE,
        links=_links(interpreters),
        disk_limit_mb=spec.disk_limit_mb,
        devices=spec.devices,
        startup=startup.name if spec.startup_script else "",
        variables=tuple(host_variables(spec).items()),
        final=(etc.sshd_program() or "sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"),
    )


def _create_layers(folder: Path, hidden: tuple[Path, ...], opaque: str) -> tuple[str, ...]:
    """Makes the host's top-level folders and links, and its own layers over the machine's."""
    layers = []
    for name in _EMPTY:
        (folder / "root" / name).mkdir(exist_ok=True)
    for name in machine.SYSTEM:
        inner = folder / "root" / name
        if os.path.islink(f"/{name}"):
            if not os.path.lexists(inner):
                inner.symlink_to(os.readlink(f"/{name}"))
        elif os.path.isdir(f"/{name}"):
            for kind in ("root", "upper", "work"):
                (folder / kind / name).mkdir(mode=0o755, exist_ok=True)
            layers.append(name)
    for path in (*hidden, Path("/etc/ssh")):  # hosts must not have the machine's own host keys
        if path.parts[1] in layers:
            inner = folder / "upper" / path.relative_to("/")
            inner.mkdir(mode=0o755, parents=True, exist_ok=True)
            os.setxattr(inner, opaque, b"y")
    return tuple(layers)


def host_variables(spec: HostSpec) -> Mapping[str, str]:
    """The variables of every session: the spec's, and where uv keeps and takes packages.

    Hard links between mounts are impossible; links into the shared cache make an environment in
    no time and on no disk, and what one host has compiled of it serves all. A host with a small
    disk gets copies, so that the disk can be full.
    """
    variables = {**spec.environment, **etc.plugin_path(etc.PLUGINS), "UV_CACHE_DIR": etc.UV_CACHE}
    if spec.disk_limit_mb is not None:
        return variables | {"UV_LINK_MODE": "copy"}
    bytecode = f"{etc.UV_CACHE}/bytecode"
    return variables | {"UV_LINK_MODE": "symlink", "PYTHONPYCACHEPREFIX": bytecode}


def _interpreters(spec: HostSpec) -> machine.Pythons:
    if spec.without_python or spec.without_python_tools:
        return machine.Pythons({}, ())
    return machine.pythons()


def _links(interpreters: machine.Pythons) -> tuple[tuple[Path, str], ...]:
    """Commands for /usr/local/bin; python3 itself stays the system's, if the system has one."""
    links = [(path, f"/usr/local/bin/{name}") for name, path in interpreters.commands.items()]
    if interpreters.commands and not os.path.exists("/usr/bin/python3"):
        newest = max(interpreters.commands, key=lambda name: int(name.rpartition(".")[2]))
        links.append((interpreters.commands[newest], "/usr/local/bin/python3"))
    return tuple(links)


def _shared(
    spec: HostSpec, hidden: tuple[Path, ...], folders: tuple[Path, ...]
) -> tuple[tuple[Path, Path], ...]:
    """What is bound in: Pythons, and files that variables name, where they would be hidden.

    A file that only its owner can read is copied, since the host's users are others.
    """
    shared = [(folder, folder) for folder in folders if machine.is_hidden(folder, hidden)]
    copies = spec.folder / "shared"
    for path in machine.named_paths(spec.environment):
        if not machine.is_hidden(path, hidden) or not machine.reachable(path):
            continue
        source = path.resolve()
        if source.is_file() and not machine.open_to_others(source):
            copies.mkdir(exist_ok=True)
            copy = copies / f"{len(shared)}-{source.name}"
            shutil.copyfile(source, copy)
            copy.chmod(0o644)
            source = copy
        shared.append((source, path))
    return tuple(shared)


def _removed(spec: HostSpec) -> tuple[str, ...]:
    """Patterns of what the machine has and the host must not have."""
    folders = ("/usr/bin", "/usr/sbin", "/usr/local/bin")
    docker: tuple[str, ...] = ()
    if spec.without_docker:
        docker = tuple(f"{folder}/{name}" for folder in folders for name in _DOCKER)
    programs: tuple[str, ...] = ("pip*", "uv", "uvx", "virtualenv*", "conda", "pyenv")
    if spec.without_python:
        programs += ("python*",)
    elif spec.without_python_tools:
        programs += ("python3.[0-9]*-config",)
    else:
        return docker
    libraries = (
        *("/usr/lib/python3*", "/usr/local/lib/python3*", "/usr/lib/python3/dist-packages"),
        *("/usr/local/lib/python3*/dist-packages", "/usr/local/lib/python3*/site-packages"),
    )
    return (
        *docker,
        *(f"{library}/{name}" for library in libraries for name in _PYTHON_TOOLS),
        *(f"{folder}/{name}" for folder in ("/usr/bin", "/usr/local/bin") for name in programs),
        "/usr/share/python-wheels",
    )


def _white_out(layer: Path, pattern: str) -> None:
    """Hides the machine's files that match *pattern* from the overlay above them."""
    for path in glob.glob(pattern):
        mark = layer / path.removeprefix("/")
        if not os.path.lexists(mark):
            mark.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            os.mknod(mark, stat.S_IFCHR)  # device 0:0: a whiteout, which any user may make


def free_port(address: str, mode: str) -> int:
    """The port for sshd on *address*: 22 if it can be bound, else 2222, else any.

    Raises TPUError (UNAVAILABLE) if the address is not this machine's.
    """
    # In a user namespace root may not bind what root may bind here.
    ours = mode in ("root", "fallback") or os.geteuid() != 0
    for port in (22, 2222, 0) if ours else (2222, 0):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((address, port))
            except OSError as error:
                if port == 0:
                    raise TPUError(
                        f"An emulated host can't listen on {address}: {error.strerror}.",
                        Reason.UNAVAILABLE,
                        "Outside Linux there is only 127.0.0.1.",
                    ) from None
                continue
            return trial.getsockname()[1]
    raise AssertionError("unreachable")


def open_for_all(folder: Path) -> None:
    """Lets every user of every host read and write what any of them makes in *folder*.

    A default ACL overrules umasks. Where the file system has no ACLs, only the mode is set.
    """
    folder.chmod(0o777)
    # struct posix_acl_xattr: version 2, then (tag, permissions, id) for user, group and other
    entries = b"".join(struct.pack("<HHI", tag, 7, 0xFFFFFFFF) for tag in (0x01, 0x04, 0x20))
    try:
        os.setxattr(folder, "system.posix_acl_default", struct.pack("<I", 2) + entries)
    except OSError:
        return


def remove_tree(folder: Path, mode: str) -> None:
    """Removes *folder* and all below it, whichever of the host's users owns it."""
    if not os.path.lexists(folder):
        return
    if mode in ("subuid", "user"):  # root there may remove what the host's users own or closed
        users = ("--map-auto",) if mode == "subuid" else ()
        subprocess.run(
            ["unshare", "--user", *users, "--map-root-user", "rm", "-rf", "--", folder],
            check=True,
            capture_output=True,
            timeout=_CLEAR_SECONDS,
        )
        return
    if mode == "fallback":
        for parent, names, _ in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(folder)
