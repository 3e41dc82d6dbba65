"""``jupyter tpu ssh`` and ``ssh-config``: the user's own OpenSSH, mosh and VS Code with TPUs."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import quote

from ..errors import Reason, TPUError
from .console import note

if TYPE_CHECKING:
    from ..cloud import Cloud, Node
    from ..links import HostName
    from ..ssh.openssh_config import HostEntry

T = TypeVar("T")


def ssh(chosen: argparse.Namespace) -> None:
    """Becomes `ssh` (or mosh); how the TPU is reached stands on its command line."""
    command = _own_options(chosen, list(chosen.command))
    node, cloud = _wait(_node(chosen.name))
    host = _host(node, chosen.worker)
    entry = _entry(cloud, host)
    words = [_program("ssh"), *_options(entry)]
    if chosen.mosh:
        # mosh asks ssh for the address it used, and would put a ProxyCommand of its own in the
        # place of ours to learn it. Its packets go straight to the host.
        endpoint = node.endpoints[host.worker]
        address = endpoint.external or endpoint.internal
        # mosh runs its ssh through a shell.
        way = [_program("mosh"), "--experimental-remote-ip=local", f"--ssh={shlex.join(words)}"]
        _become([*way, f"{entry.user}@{address}", *(["--", *command] if command else [])])
    # OpenSSH's options come before the host's name, and what runs there after it.
    split = next((i for i, word in enumerate(command) if word == "--"), None)
    before = command[:split] if split is not None else _leading_options(command)
    after = command[split + 1 :] if split is not None else command[len(before) :]
    _become([*words, *before, "--", entry.names[0], *after])


def ssh_config(chosen: argparse.Namespace) -> None:
    """Prints our entries, or wires them into the user's configuration."""
    from ..fleet.hosts import openssh
    from ..ssh.openssh_config import change_user_config, config_path, entries_named, render
    from ..ssh.proxies import user_config

    if chosen.remove:
        removed = change_user_config(user_config(), config_path(), add=False)
        config_path().unlink(missing_ok=True)
        print(
            f"{user_config()} includes our entries no more."
            if removed
            else f"{user_config()} did not include them."
        )
        return
    if chosen.between_hosts:
        _between_hosts(chosen.between_hosts)
        return
    cloud, nodes = _wait(_nodes())
    if not chosen.write:
        print(render(openssh.entries(cloud, nodes)), end="")
        return
    made = openssh.write(cloud, nodes)
    names = [entry.names[0] for entry in made]
    config = user_config()
    own = entries_named(config.read_bytes(), names) if config.exists() else []
    added = change_user_config(config, config_path(), add=True)
    print(
        f"{config}: added one line, which includes {config_path()}."
        if added
        else f"{config} includes {config_path()} already; its entries are up to date."
    )
    if own:
        note(f"Your own entries for {', '.join(own)} are overruled by ours.")
    if names:
        print(f"Try: ssh {names[0]}")
        print(f"VS Code: code --remote ssh-remote+{names[0]} /home/{made[0].user}")
    else:
        print("There is no TPU yet; entries come and go with TPUs.")


def open_remotely(name: str, worker: int, folder: str) -> None:
    """Opens VS Code on a host, or says how; the entries must be in the user's configuration."""
    from ..fleet.hosts import openssh
    from ..ssh.openssh_config import config_path, includes
    from ..ssh.proxies import user_config

    cloud, nodes = _wait(_nodes())
    node, _ = _wait(_node(name))
    host = _host(node, worker)
    entries = openssh.write(cloud, nodes)
    alias = openssh.entry(cloud, host, ("x",)).alias
    found = [entry for entry in entries if entry.alias == alias]
    if not found:
        raise TPUError(f"{host} has no name for ssh.", Reason.NOT_FOUND)
    config = user_config()
    if not config.exists() or not includes(config.read_bytes(), config_path()):
        raise TPUError(
            "VS Code can't find TPUs by name yet.",
            Reason.CONFLICT,
            "Let ssh know them first: jupyter tpu ssh-config --write",
        )
    remote, path = found[0].names[0], folder or f"/home/{found[0].user}"
    print(f"code --remote {shlex.quote(f'ssh-remote+{remote}')} {shlex.quote(path)}")
    print(f"vscode://vscode-remote/ssh-remote+{quote(remote)}{quote(path)}")


# ---- keys between the hosts of a pod -------------------------------------------------------------


def _between_hosts(name: str) -> None:
    from ..links import HostName, core_thread, default_links
    from ..links.pod_ssh import authorize_hosts

    async def all_of_them() -> int:
        node, cloud = await _node(name)
        links = default_links(cloud.target)
        hosts = [
            (HostName(node.name, worker), endpoint.internal)
            for worker, endpoint in enumerate(node.endpoints)
        ]
        try:
            await authorize_hosts(links, hosts)
        finally:
            await links.close()
        return len(hosts)

    count = core_thread().wait(all_of_them())
    print(
        f"The {count} hosts of {name} reach each other: ssh host-0 … ssh host-{count - 1}, with a "
        "key of its own on each."
    )


# ---- which TPU -----------------------------------------------------------------------------------


async def _nodes() -> tuple[Cloud, tuple[Node, ...]]:
    from ..cloud import Target
    from ..links import default_links

    cloud = default_links(Target.from_environment()).cloud
    return cloud, (await cloud.list_nodes()).nodes


async def _node(ref: str) -> tuple[Node, Cloud]:
    """The TPU that "name", "zone/name" or "zone~name" means."""
    zone, _, name = ref.replace("~", "/", 1).rpartition("/")
    cloud, nodes = await _nodes()
    found = [node for node in nodes if node.name.node == name and zone in ("", node.name.zone)]
    if not found:
        raise TPUError(f"There is no TPU called {ref}.", Reason.NOT_FOUND)
    if len(found) > 1:
        zones = ", ".join(node.name.zone for node in found)
        raise TPUError(
            f"There are several TPUs called {name}: in {zones}.",
            Reason.CONFLICT,
            f"Say which one: {found[0].name.zone}~{name}.",
        )
    return found[0], cloud


def _host(node: Node, worker: int) -> HostName:
    from ..fleet.forwarding.ports import check_host
    from ..links import HostName

    check_host(node, worker)
    return HostName(node.name, worker)


def _entry(cloud: Cloud, host: HostName) -> HostEntry:
    from ..fleet.hosts.openssh import entry

    name = host.node.node + (f"-{host.worker}" if host.worker else "")
    return entry(cloud, host, (name,))


def _options(entry: HostEntry) -> list[str]:
    return [word for name, value in entry.options() for word in ("-o", f"{name} {value}")]


def _own_options(chosen: argparse.Namespace, words: list[str]) -> list[str]:
    """What is left for ssh: argparse takes all that follows NAME for it, our options too."""
    while words:
        name, equals, value = words[0].partition("=")
        if name == "--mosh" and not equals:
            chosen.mosh = True
        elif name == "--worker" and (equals or len(words) > 1):
            value = value if equals else words.pop(1)
            try:
                chosen.worker = int(value)
            except ValueError:
                raise TPUError(
                    f"--worker is the number of a host, not {value!r}.", Reason.INVALID
                ) from None
        else:
            break
        del words[0]
    return words[1:] if words[:1] == ["--"] else words


#: Options of ssh that take a value, which may be the next word.
_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")


def _leading_options(words: list[str]) -> list[str]:
    """The options of ssh at the start of *words*, with their values."""
    count = 0
    while count < len(words) and words[count].startswith("-") and len(words[count]) > 1:
        word = words[count]
        count += 1
        first = next((i for i, letter in enumerate(word[1:], 1) if letter in _WITH_VALUE), None)
        if first is not None and first == len(word) - 1:
            count += 1
    return words[:count]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise TPUError(
            f"{name} is not installed on this machine.",
            Reason.NOT_FOUND,
            f"Install it ({'OpenSSH' if name == 'ssh' else name}) with your system's package "
            "manager.",
        )
    return found


def _become(command: list[str]) -> NoReturn:
    sys.stdout.flush()
    if sys.platform == "win32":
        import subprocess

        raise SystemExit(subprocess.run(command).returncode)
    os.execv(command[0], command)


def _wait(coroutine: Coroutine[Any, Any, T]) -> T:
    from ..links import core_thread

    return core_thread().wait(coroutine)
