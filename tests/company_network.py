"""A company's network: nothing but its proxy leads to Google, and it shows certificates of its own.

`CompanyNetwork` has a proxy that accepts CONNECT. Behind it are servers under Google's names:
Cloud TPU over gRPC, and all others over HTTPS, each with a certificate of the company.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from google.cloud import tpu_v2

LIMIT = 60.0  # seconds, for one connection


class CompanyNetwork:
    """Attributes
    ----------
    proxy: its URL.
    authority: the file with the company's certificate.
    hosts: the names that were asked for at the proxy.
    requests: of HTTPS, each with its headers.
    answers: what a path ("/compute/v1/…", its beginning) answers: status and JSON.
    nodes: the TPUs that Cloud TPU lists.
    quota_projects: of calls of Cloud TPU.
    """

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "company.pem"
        self.hosts: list[str] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.answers: dict[str, tuple[int, Any]] = {
            "/token": (200, {"access_token": "secret", "expires_in": 3600, "token_type": "Bearer"})
        }
        self.nodes: list[dict[str, Any]] = []
        self.quota_projects: list[str | None] = []
        self._certificate, self._key = folder / "server.pem", folder / "server.key"
        make_certificates(self.authority, self._certificate, self._key)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with _serving(self._https()) as https, self._grpc() as cloud_tpu:

            def port_of(host: str) -> int:
                self.hosts.append(host)
                return cloud_tpu if host == "tpu.googleapis.com" else https

            with _serving(_proxy(port_of)) as port:
                self.proxy = f"http://127.0.0.1:{port}"
                yield

    def service_account(self, path: Path, **fields: str) -> None:
        """Writes Application Default Credentials."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        account = {
            "type": "service_account",
            "client_email": "robot@own.iam.gserviceaccount.com",
            "private_key": _pem(key),
            "token_uri": "https://oauth2.googleapis.com/token",
            **fields,
        }
        path.write_text(json.dumps(account))

    def person(self, path: Path, **fields: str) -> None:
        """As :meth:`service_account`, of a person who has logged in."""
        login = {"client_id": "id", "client_secret": "secret", "refresh_token": "token"}
        path.write_text(json.dumps({"type": "authorized_user", **login, **fields}))

    def _https(self) -> ThreadingHTTPServer:
        network = self

        class Google(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                network.requests.append((self.path, dict(self.headers)))
                found = (a for path, a in network.answers.items() if self.path.startswith(path))
                status, answer = next(found, (200, {}))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Google)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        return server

    @contextlib.contextmanager
    def _grpc(self) -> Iterator[int]:
        def list_nodes(request: Any, context: grpc.ServicerContext) -> Any:
            metadata = dict(context.invocation_metadata())
            self.quota_projects.append(metadata.get("x-goog-user-project"))
            return tpu_v2.ListNodesResponse(nodes=self.nodes)

        handler = grpc.unary_unary_rpc_method_handler(
            list_nodes, response_serializer=tpu_v2.ListNodesResponse.serialize
        )
        server = grpc.server(ThreadPoolExecutor(4))
        service = grpc.method_handlers_generic_handler(
            "google.cloud.tpu.v2.Tpu", {"ListNodes": handler}
        )
        server.add_generic_rpc_handlers((service,))
        pair = self._key.read_bytes(), self._certificate.read_bytes()
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait(LIMIT)


def _proxy(port_of: Callable[[str], int]) -> ThreadingHTTPServer:
    class Proxy(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            host = self.path.rpartition(":")[0]
            with socket.create_connection(("127.0.0.1", port_of(host)), LIMIT) as there:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_carry, args=(there, self.connection), daemon=True)
                back.start()
                _carry(self.connection, there)
                back.join(LIMIT)

        def log_message(self, *_: Any) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Proxy)


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def _serving(server: ThreadingHTTPServer) -> Iterator[int]:
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(LIMIT)


def make_certificates(authority: Path, certificate: Path, key_file: Path) -> None:
    """The company's own, and one by it for Google's names, with its key."""
    key, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    company = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A company")])
    signs = dict.fromkeys(
        (
            "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
            "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
        ),
        False,
    )  # fmt: skip
    root = (
        _certificate(company, company, own, own)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        # Python 3.13 demands it of an authority.
        .add_extension(x509.KeyUsage(**{**signs, "key_cert_sign": True}), critical=True)
    )
    names: list[x509.GeneralName] = [x509.DNSName("*.googleapis.com")]
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    google = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "*.googleapis.com")])
    leaf = _certificate(google, company, key, own).add_extension(
        x509.SubjectAlternativeName(names), critical=False
    )
    encoding = serialization.Encoding.PEM
    authority.write_bytes(root.sign(own, hashes.SHA256()).public_bytes(encoding))
    certificate.write_bytes(leaf.sign(own, hashes.SHA256()).public_bytes(encoding))
    key_file.write_text(_pem(key))


def _certificate(subject: x509.Name, issuer: x509.Name, key: Any, by: Any) -> Any:
    now = datetime.datetime.now(datetime.UTC)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(identifier, critical=False)
    )


def _pem(key: Any) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
