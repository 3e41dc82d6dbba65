"""Identity-Aware Proxy's tunnel to a host: what ``gcloud compute start-iap-tunnel`` speaks.

A WebSocket with the subprotocol ``relay.tunnel.cloudproxy.app``, under ``/v4/connect`` and
``/v4/reconnect``. Each message begins with a tag of two bytes; numbers are big-endian:

====  ===================================  =======================
0x01  connected: session id                length (4 bytes), bytes
0x02  connected again: bytes received      8 bytes
0x04  data                                 length (4 bytes), bytes
0x07  acknowledged: bytes received         8 bytes
====  ===================================  =======================

gcloud is pointed at it by its hidden flag ``--iap-tunnel-url-override=wss://127.0.0.1:PORT/v4``. It
insists on TLS: `IapTunnels` has a port and a certificate of its own, from when they are first asked
for.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import ssl
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import WSCloseCode, WSMsgType, web

from ...local_files import write_atomically
from ..engine import Engine
from ..model import api_errors
from ..state_folder import EmulatorToken
from .rest import guard

SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
CONNECTED, RECONNECTED, DATA, ACK = 1, 2, 4, 7
FRAME_BYTES = 16384  # bytes of data in one message at most
#: Close codes: no host of that name or nothing listens there; no such session.
UNREACHABLE, NO_SESSION = 4003, 4051
_LOOPBACK = ipaddress.IPv4Address("127.0.0.1")
RECONNECT_SECONDS = 60.0  # for which a session outlives its connection


class IAPSession:
    """One connection to a port of a host, which outlives the WebSockets that carry it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.id = secrets.token_hex(16)
        self.writer = writer
        self._reader = reader
        self.received = 0  # bytes from the client
        self._acknowledged = 0  # bytes that the client has
        self._unacknowledged = bytearray()
        self.forgetting: asyncio.TimerHandle | None = None

    def acknowledge(self, count: int) -> None:
        """The client has *count* bytes since the beginning."""
        del self._unacknowledged[: max(0, count - self._acknowledged)]
        self._acknowledged = max(count, self._acknowledged)

    async def send(self, socket: web.WebSocketResponse) -> None:
        """Sends what the client does not have, and what the host says, until its end."""
        for at in range(0, len(self._unacknowledged), FRAME_BYTES):
            await socket.send_bytes(_data(bytes(self._unacknowledged[at : at + FRAME_BYTES])))
        with contextlib.suppress(ConnectionError):  # the host's end, as the end of the data
            while data := await self._reader.read(FRAME_BYTES):
                self._unacknowledged += data
                await socket.send_bytes(_data(data))
        await socket.close()

    async def receive(self, socket: web.WebSocketResponse) -> None:
        """Hands the client's messages to the host, until the WebSocket ends."""
        async for message in socket:
            if message.type != WSMsgType.BINARY:
                continue
            tag = struct.unpack_from(">H", message.data)[0]
            if tag == ACK:
                self.acknowledge(struct.unpack_from(">Q", message.data, 2)[0])
            elif tag == DATA:
                data = message.data[6:]
                self.received += len(data)
                self.writer.write(data)
                await self.writer.drain()
                await socket.send_bytes(struct.pack(">HQ", ACK, self.received))


class IapTunnels:
    """A server of its own, which demands *token* like the others; it is `open` on demand."""

    def __init__(self, engine: Engine, token: EmulatorToken) -> None:
        self._token = token
        self._certificate = token.path.with_name("iap.pem")
        self._app = web.Application(middlewares=[guard(token)])
        _add_routes(self._app, engine)
        self._runner: web.AppRunner | None = None

    async def open(self) -> dict[str, str]:
        """Its URL, and the file with the certificate that a client has to trust."""
        if self._runner is None:
            write_certificate(self._certificate)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=1)
            await self._runner.setup()
            await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        port = self._runner.addresses[0][1]
        return {"url": f"wss://127.0.0.1:{port}/v4", "certificate": str(self._certificate)}

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()


def write_certificate(path: Path) -> None:
    """Writes a key and a self-signed certificate for 127.0.0.1, valid for a year."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "jupyter-tpu emulator")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(_LOOPBACK)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_atomically(path, private + certificate.public_bytes(serialization.Encoding.PEM))


def _add_routes(app: web.Application, engine: Engine) -> None:
    """``/v4/connect`` and ``/v4/reconnect``."""
    sessions: dict[str, IAPSession] = {}

    def forget(session: IAPSession) -> None:
        sessions.pop(session.id, None)
        session.writer.close()

    async def connect(request: web.Request) -> web.WebSocketResponse:
        socket = await _open(request)
        query = request.query
        try:
            host = engine.model.find_host(
                query.get("project", ""), query.get("zone", ""), query.get("instance", "")
            )
            port = int(query.get("port", "22"))
            reader, writer = await asyncio.open_connection(
                host.address, host.port if port == 22 else port
            )
        except (api_errors.ApiError, OSError, ValueError):
            await socket.close(code=UNREACHABLE, message=b"failed to connect to backend")
            return socket
        session = IAPSession(reader, writer)
        sessions[session.id] = session
        name = session.id.encode()
        await socket.send_bytes(struct.pack(f">HI{len(name)}s", CONNECTED, len(name), name))
        return await relay(session, socket)

    async def reconnect(request: web.Request) -> web.WebSocketResponse:
        socket = await _open(request)
        # gcloud writes the id as it writes bytes: b'…'
        session = sessions.get(request.query.get("sid", "").removeprefix("b'").rstrip("'"))
        if session is None:
            await socket.close(code=NO_SESSION, message=b"unknown session")
            return socket
        session.acknowledge(int(request.query.get("ack", "0")))
        await socket.send_bytes(struct.pack(">HQ", RECONNECTED, session.received))
        return await relay(session, socket)

    async def relay(session: IAPSession, socket: web.WebSocketResponse) -> web.WebSocketResponse:
        if session.forgetting is not None:
            session.forgetting.cancel()
        sending = asyncio.create_task(session.send(socket))
        try:
            with contextlib.suppress(ConnectionError):
                await session.receive(socket)
        finally:
            ended = sending.done() or socket.close_code == WSCloseCode.OK
            await _cancel(sending)
            if ended:
                forget(session)
            else:
                loop = asyncio.get_running_loop()
                session.forgetting = loop.call_later(RECONNECT_SECONDS, forget, session)
        return socket

    async def end_all(_app: web.Application) -> None:
        for session in list(sessions.values()):
            forget(session)

    app.router.add_get("/v4/connect", connect)
    app.router.add_get("/v4/reconnect", reconnect)
    app.on_cleanup.append(end_all)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _open(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(protocols=(SUBPROTOCOL,))
    await socket.prepare(request)
    return socket


def _data(data: bytes) -> bytes:
    return struct.pack(">HI", DATA, len(data)) + data
