"""Tunnels and web applications: ports of hosts that are open here."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .problems import Problem


class OpenTunnel(Struct, kw_only=True, forbid_unknown_fields=True):
    """A tunnel to open: a port of this machine that leads to a port of a host."""

    #: On the host, 1 to 65535.
    port: int
    #: On this machine; None: the same number if it is free, any free one if not.
    local_port: int | None = None
    #: Which host of the TPU.
    host: int = 0
    #: What to listen on. Others than loopback have to be allowed first
    #: (``JUPYTER_TPU_TUNNEL_ADDRESSES``).
    address: str = "127.0.0.1"


class Tunnel(Struct, kw_only=True):
    """A local port that leads to a port on a host; it stays through link breaks and restarts."""

    id: str
    tpu: str
    zone: str
    host: int
    port: int  # on the host
    local_port: int  # the same as long as the tunnel is there
    address: str = "127.0.0.1"
    #: "waiting" for the link to heal; "taken": another program has the local port, and it is tried
    #: again; "elsewhere": another server of yours runs it.
    state: Literal["open", "waiting", "taken", "needs-you", "elsewhere"]
    since: str = ""
    #: Why it is not open; on an open one, why the last connection failed.
    problem: Problem | None = None
    connections: int = 0  # open now
    #: Bytes to and from the host since this server opened it.
    sent: int = 0
    received: int = 0
    #: The line is slow and the data shrink: new connections are compressed.
    compressed: bool = False


class OpenApp(Struct, kw_only=True, forbid_unknown_fields=True):
    """A web application of a host to open in the browser, on an origin of its own."""

    #: On the host, 1 to 65535.
    port: int
    #: Which host of the TPU.
    host: int = 0
    #: Where it begins.
    path: str = "/"
    #: What it is called; "" for "Port 6006".
    name: Annotated[str, Meta(max_length=80)] = ""
    #: Lets its pages connect and send forms to anywhere, not to itself alone: to other programs
    #: that listen on the browser's machine, too, which may take what they are sent.
    anywhere: bool = False


class VisitApp(Struct, kw_only=True, forbid_unknown_fields=True):
    """Who will show an app."""

    #: The origin of the page that frames it ("http://localhost:8888"); "": a window of its own.
    framed_by: str = ""


class App(Struct, kw_only=True):
    """A web application of a host that is open here; it ends with the server."""

    id: str
    tpu: str
    zone: str
    host: int
    port: int  # on the host
    path: str
    name: str
    kind: Literal["port", "tensorboard"] = "port"
    logdir: str = ""  # of a TensorBoard
    anywhere: bool = False  # its pages may connect and send forms to anywhere
    #: "waiting" for the link to heal: who asks meanwhile waits.
    state: Literal["open", "waiting", "needs-you"]
    problem: Problem | None = None
    created: str = ""
    #: Bytes to and from the host.
    sent: int = 0
    received: int = 0


class AppVisit(Struct, kw_only=True):
    """What one browser opens an app with."""

    #: Good for one use within 30 seconds; don't keep it.
    url: str
    #: Answers 204 to who can reach the app's port at all.
    probe: str
    #: Where it is beneath the Jupyter server's base URL, if the server's options allow that: for a
    #: browser that does not reach the app's port. "" if not.
    beneath: str = ""


class OpenTensorBoard(Struct, kw_only=True, forbid_unknown_fields=True):
    """A TensorBoard to open, with the xprof plug-in."""

    #: The folder on the host with the logs; below the home if it is relative. Or gs://….
    logdir: Annotated[str, Meta(max_length=4096)]
    #: Which host of the TPU.
    host: int = 0


class ProfileKernel(Struct, kw_only=True, forbid_unknown_fields=True):
    """A trace of what a kernel does to take, and to show in TensorBoard."""

    seconds: float = 3.0
    #: Where on the host it goes; "": a folder of ours that all traces share.
    logdir: Annotated[str, Meta(max_length=4096)] = ""
