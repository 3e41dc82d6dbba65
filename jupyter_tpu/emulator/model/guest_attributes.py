"""Guest attributes: what a host publishes of itself on its metadata server."""

from __future__ import annotations

from .faults import Faults
from .records import HostRecord, NodeRecord

Item = tuple[str, str, str]  # namespace, key, value


def published(faults: Faults, node: NodeRecord, host: HostRecord, query: str) -> list[Item]:
    """Those of *host* that *query* asks for: "namespace/" or "namespace/key"; "" for all."""
    items = [("hostkeys", kind, value) for kind, value in sorted(host.host_keys.items())]
    if host.host_keys:  # it has run
        items.append(("vm", "hostname", host.hostname))
        is_first = host is node.own_hosts[0]
        port = (faults.proxy_port(node.name, node.path) if is_first else 0) or host.port
        if port != 22:
            items.append(("ssh", "port", str(port)))
    for path, value in host.published.items():
        namespace, _, key = path.partition("/")
        items.append((namespace, key, value))
    namespace, _, key = query.partition("/")
    return [item for item in items if namespace in ("", item[0]) and key in ("", item[1])]
