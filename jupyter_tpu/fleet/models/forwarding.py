"""Tunnels and web applications: ports of hosts that are open here."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .core import Problem

HostNumber = Annotated[int, option("Number of the host.", "--worker", metavar="N")]


class OpenTunnel(Struct, kw_only=True, forbid_unknown_fields=True):
    """A tunnel to open: a local port that is forwarded to a port of a host."""

    #: On the host, 1 to 65535.
    port: int
    #: `Tunnel.local_port_reason` says why it is another one.
    local_port: Annotated[
        int | None,
        option(
            "Listen on this port.",
            metavar="LOCAL",
            default="the port on the host if it is free, else any",
        ),
    ] = None
    host: HostNumber = 0
    #: Addresses other than loopback must be allowed first (``JUPYTER_TPU_TUNNEL_ADDRESSES``).
    address: Annotated[str, option("The local address to listen on.")] = "127.0.0.1"


class Tunnel(Struct, kw_only=True):
    """A local port that is forwarded to a port of a host; it survives link breaks and restarts."""

    id: str
    tpu: str
    zone: str
    host: int
    port: int  # on the host
    local_port: int  # stays the same while the tunnel exists
    address: str = "127.0.0.1"
    #: Why the local port is not the host's number, although no other one was asked for: a sentence,
    #: or "". Known to the server that opened the tunnel.
    local_port_reason: str = ""
    #: "waiting": for the link to reconnect; "taken": another program uses the local port, which is
    #: retried; "elsewhere": another server or command of yours runs it.
    state: Literal["open", "waiting", "taken", "needs-attention", "elsewhere"]
    since: str = ""
    #: Why it is not open; if it is open, why the last connection failed.
    problem: Problem | None = None
    connections: int = 0  # open now
    #: Bytes to and from the host since this server opened it.
    sent: int = 0
    received: int = 0
    #: New connections are compressed: the network is slow, and compression helps.
    compressed: bool = False


class OpenApp(Struct, kw_only=True, forbid_unknown_fields=True):
    """A web app of a host to open in the browser, on an origin of its own."""

    #: On the host, 1 to 65535.
    port: int
    host: HostNumber = 0
    path: Annotated[str, option("The page to open.")] = "/"
    #: Its name; "": "Port" and the number.
    name: Annotated[str, Meta(max_length=80)] = ""
    allow_external: Annotated[
        bool,
        option(
            "Let the page connect and send forms to any address, including programs on the "
            "browser's computer. Only for apps you trust."
        ),
    ] = False


class VisitApp(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where an app will be shown."""

    #: The origin of the page that frames it ("http://localhost:8888"); "": its own window.
    framed_by: str = ""


class App(Struct, kw_only=True):
    """A web app of a host that is open here; it closes with the server."""

    id: str
    tpu: str
    zone: str
    host: int
    port: int  # on the host
    path: str
    name: str
    kind: Literal["port", "tensorboard", "ray"] = "port"
    logdir: str = ""  # of a TensorBoard
    allow_external: bool = False  # its pages may connect and send forms to any address
    #: "waiting": for the link to reconnect; requests wait meanwhile.
    state: Literal["open", "waiting", "needs-attention"]
    problem: Problem | None = None
    created: str = ""
    #: Bytes to and from the host.
    sent: int = 0
    received: int = 0


class AppVisit(Struct, kw_only=True):
    """The URL with which one browser opens an app."""

    #: Valid for one use within 30 seconds; don't keep it.
    url: str
    #: Answers 204 if the browser can reach the app's port.
    probe: str
    #: A page for a frame. It posts ``{"storage": false}`` to the page that frames it if the browser
    #: does not let the app's pages store data there, which many applications need.
    storage_check: str
    #: Its path under the Jupyter server's base URL, if the server's options allow that; for a
    #: browser that can't reach the app's port. "" if not.
    server_path: str = ""


class OpenTensorBoard(Struct, kw_only=True, forbid_unknown_fields=True):
    """A TensorBoard to open, with the xprof plug-in."""

    #: Relative to the home folder, or absolute.
    logdir: Annotated[
        str,
        Meta(max_length=4096),
        option("A folder on the host, or gs://BUCKET/FOLDER.", metavar="DIR"),
    ]
    host: HostNumber = 0
    #: Otherwise that fails with NO_FOLDER.
    allow_missing: Annotated[
        bool,
        option("Open a folder that does not exist yet. TensorBoard shows it when there are logs."),
    ] = False
