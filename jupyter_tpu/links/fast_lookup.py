"""A quick lookup of a host's address, for every `ssh my-tpu`.

It is enough if all else was done before: our key is on the node, the host's keys are pinned, and
the node is READY. In all other cases it returns None, and `Lookup` does the work or explains.
"""

from __future__ import annotations

from ..cloud import NodeState, Target, has_ssh_key, is_attached
from ..cloud.tpu.rest import RestReader
from ..ssh import HostAddress, KnownHosts
from ..ssh.keys import key_path, stored_public_key
from . import logins
from .lookup import HostName, host_alias, ssh_port


def fast_lookup(target: Target, host: HostName) -> HostAddress | None:
    """The host's current address, from the API; blocks."""
    if is_attached(host.node):
        return None
    reader = RestReader(target)
    node = reader.node(host.node)
    if node is None or node.state is not NodeState.READY or host.number >= len(node.endpoints):
        return None
    public, login = stored_public_key(), logins.login(node)
    if not public or not (login.os_login or has_ssh_key(node, login.user, public)):
        return None
    endpoint = node.endpoints[host.number]
    alias = host_alias(node.id, host.number, endpoint)
    pinned = KnownHosts().keys(alias)
    if not pinned or not endpoint.external:
        return None
    port = 22
    if target.emulator:
        published = reader.guest_attributes(host.node)
        if published is None or host.number >= len(published):
            return None
        port = ssh_port(published[host.number])
    return HostAddress(
        address=endpoint.external,
        port=port,
        user=login.user,
        host_keys=pinned,
        alias=alias,
        name=str(host),
        identity_file=key_path(),
    )
