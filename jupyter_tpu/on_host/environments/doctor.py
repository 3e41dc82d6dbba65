"""Examines a host: its chips, disks, clock, logins and environments; and ports between hosts."""

import json
import os
import select
import shutil
import socket
import time

from ..calls.protocol import HostError, emit
from ..chips.holders import hardware
from .virtualenv import check_python

#: Where libtpu writes logs, which nothing deletes.
LOGS = "/tmp/tpu_logs"


def examine(environments, variables, root="/"):
    """Facts about this host, with those of each of the *environments*.

    These are names, each with the Python of one that was found on the host, else "".

    JAX is started in them, one after the other, with *variables*, unless a process holds the chips.
    """
    hardware_facts = hardware(root)
    checks = {}
    for name, python in environments.items():
        try:
            checks[name] = check_python(
                name, variables, "look" if hardware_facts["holders"] else "start", python=python
            )
        except HostError as error:
            checks[name] = {"error": error.payload[1]}
    return {
        "hardware": hardware_facts,
        "disks": [_disk(path) for path in (os.path.expanduser("~"), "/tmp")],
        "logs": _size(LOGS),
        "account": None if hardware_facts["emulated"] else service_account(),
        "environments": checks,
    }


def listen(address, ports, seconds):
    """Listens on *ports* for some seconds, next to the programs that do so already.

    Its progress is 1 when it listens. It ends earlier if its caller does not wait for it.
    """
    sockets = []
    for port in ports:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((address, port))
            server.listen(256)
            sockets.append(server)
        except OSError:
            server.close()  # in use: then that program answers
    emit(part=1)
    time.sleep(seconds)
    return {}


def reach(address, ports, timeout=5):
    """Those of *ports* of another host that can be reached from here, within *timeout* seconds."""
    waiting, reached = {}, []
    for port in ports:
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((address, port))
        waiting[client] = port
    deadline = time.time() + timeout
    while waiting and time.time() < deadline:
        _, ready, _ = select.select([], list(waiting), [], max(0, deadline - time.time()))
        for client in ready:
            if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                reached.append(waiting[client])
            del waiting[client]
            client.close()
    return sorted(reached)


def service_account():
    """The ``email`` and ``scopes`` of the VM's own account, by which it reads buckets.

    Both are empty if it has none. None if this is no VM of Google, or no one can say.
    """
    import urllib.error
    import urllib.request

    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    request = urllib.request.Request(
        "http://%s/computeMetadata/v1/instance/service-accounts/default/?recursive=true" % host,
        headers={"Metadata-Flavor": "Google"},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=3) as answer:
            account = json.load(answer)
            return {"email": str(account["email"]), "scopes": list(map(str, account["scopes"]))}
    except urllib.error.HTTPError as error:
        return {"email": "", "scopes": []} if error.code == 404 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _disk(path):
    usage = shutil.disk_usage(path)
    return {"path": path, "free": usage.free, "total": usage.total}


def _size(folder):
    """Bytes of the files in *folder*."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:
                continue  # it was deleted meanwhile
    return total
