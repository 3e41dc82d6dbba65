"""``jupyter tpu ssh-config``: ssh, scp, git and VS Code find TPUs by name."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from ..errors import Reason, TPUError
from ..terminal.grammar import command, examples
from ..terminal.nodes import find_node, list_nodes
from ..terminal.printing import note
from ..terminal.session import current_target
from .ssh import host_of, wait_for

if TYPE_CHECKING:
    pass


@command("ssh-config", epilog=examples("jupyter tpu ssh-config --write && ssh my-tpu"))
@click.option(
    "--write",
    is_flag=True,
    help="Keep the entries in a file, and add one line to ~/.ssh/config that includes it.",
)
@click.option("--remove", is_flag=True, help="Remove that line.")
@click.option(
    "--between-hosts",
    metavar="NAME",
    help="Let the hosts of this TPU reach each other, each with its own key.",
)
def ssh_config(write: bool, remove: bool, between_hosts: str | None) -> None:
    """Let ssh, scp, rsync, git and VS Code find TPUs by name.

    Prints the entries for OpenSSH if no option is given.
    """
    if write + remove + bool(between_hosts) > 1:
        raise click.UsageError("Give only one of --write, --remove and --between-hosts.")
    if remove:
        _remove_entries()
    elif between_hosts:
        _authorize_hosts(between_hosts)
    elif write:
        _write_entries()
    else:
        from ..fleet.files import openssh
        from ..ssh.openssh_config import render

        cloud, nodes = wait_for(list_nodes(current_target()))
        print(render(openssh.entries(cloud, nodes)), end="")


def _remove_entries() -> None:
    from ..ssh.openssh_config import change_user_config, config_path
    from ..ssh.proxies import user_config

    removed = change_user_config(user_config(), config_path(), add=False)
    config_path().unlink(missing_ok=True)
    print(
        f"{user_config()} no longer includes the entries."
        if removed
        else f"{user_config()} did not include the entries."
    )


def _write_entries() -> None:
    from ..fleet.files import openssh
    from ..ssh.openssh_config import (
        change_user_config,
        config_path,
        entries_named,
        read_user_config,
    )
    from ..ssh.proxies import user_config

    config = user_config()
    text = read_user_config(config)
    cloud, nodes = wait_for(list_nodes(current_target()))
    written = openssh.write(cloud, nodes)
    names = [entry.names[0] for entry in written]
    own = entries_named(text, names)
    added = change_user_config(config, config_path(), add=True)
    print(
        f"{config}: added one line, which includes {config_path()}."
        if added
        else f"{config} already includes {config_path()}. Its entries are up to date."
    )
    if own:
        note(f"These entries override your own for {', '.join(own)}.")
    if names:
        print(f"Try: ssh {names[0]}")
        print(f"VS Code: code --remote ssh-remote+{names[0]} /home/{written[0].user}")
    else:
        print("No TPUs yet. Their entries are added when you create them.")


def open_remotely(name: str, number: int, folder: str) -> None:
    """Opens VS Code on a host, or says how; the entries must be in the user's configuration."""
    from ..fleet.files import openssh
    from ..ssh.openssh_config import config_path, includes, read_user_config
    from ..ssh.proxies import user_config

    cloud, nodes = wait_for(list_nodes(current_target()))
    node, _ = wait_for(find_node(name, current_target()))
    host = host_of(node, number)
    entries = openssh.write(cloud, nodes)
    alias = openssh.entry(cloud, node, host.number, ("x",)).alias
    host_entries = [entry for entry in entries if entry.alias == alias]
    if not host_entries:
        raise TPUError(f"The SSH configuration has no entry for {host}.", Reason.NOT_FOUND)
    if not includes(read_user_config(user_config()), config_path()):
        raise TPUError(
            "VS Code can't find TPUs by name yet.",
            Reason.CONFLICT,
            "Run this first: jupyter tpu ssh-config --write",
        )
    remote, path = host_entries[0].names[0], folder or f"/home/{host_entries[0].user}"
    print(f"code --remote {shlex.quote(f'ssh-remote+{remote}')} {shlex.quote(path)}")
    print(f"vscode://vscode-remote/ssh-remote+{quote(remote)}{quote(path)}")


def _authorize_hosts(name: str) -> None:
    from ..links import HostName, core_thread, default_links
    from ..links.pod_ssh import authorize_hosts

    target = current_target()

    async def all_of_them() -> int:
        node, cloud = await find_node(name, target)
        links = default_links(cloud.target)
        hosts = {
            HostName(node.name, number): endpoint.internal
            for number, endpoint in enumerate(node.endpoints)
        }
        try:
            for error in (await authorize_hosts(links.get, hosts)).values():
                raise error
        finally:
            await links.close()
        return len(hosts)

    count = core_thread().wait(all_of_them())
    print(
        f"The {count} hosts of {name} can reach each other: ssh host-0 … ssh host-{count - 1}. "
        "Each has its own key."
    )
