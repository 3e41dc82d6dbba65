"""How this computer reaches Google: through which proxy, and whose certificates it trusts.

Python, gRPC and the libraries below them read different variables. Here one is enough, whichever is
set, in capitals or not: a company's proxy often ends TLS, with certificates of its own.
"""

from __future__ import annotations

import os
import re
import ssl
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import Reason, TPUError
from . import gcloud

#: Variables that name a file of certificates which are trusted; of a folder all files are.
CA_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
_UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED|certificate verify failed", re.IGNORECASE)


def ca_paths(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """What the variables name, and gcloud's `core/custom_ca_certs_file`; each once.

    Raises NO_CREDENTIALS for one that does not exist.
    """
    named = {name: environ[name] for name in CA_VARIABLES if environ.get(name)}
    if of_gcloud := gcloud.setting("core", "custom_ca_certs_file", environ):
        named["gcloud's core/custom_ca_certs_file"] = of_gcloud
    for name, path in named.items():
        if not os.path.exists(path):
            raise TPUError(
                f"{name} is {path}, but this file does not exist.",
                Reason.NO_CREDENTIALS,
                "Correct it, or unset it.",
            )
    return list(dict.fromkeys(map(Path, named.values())))


def tls_context() -> ssl.SSLContext:
    """For HTTPS: Python's usual certificates, and those of `ca_paths`."""
    context = ssl.create_default_context()
    for path in ca_paths():
        folder = path.is_dir()
        context.load_verify_locations(
            cafile=None if folder else path, capath=path if folder else None
        )
    return context


def opener(*, emulated: bool) -> urllib.request.OpenerDirector:
    """What opens URLs of Google, or of an emulator on this machine. Make it once: it loads all
    certificates.
    """
    if emulated:  # a proxy that is set for the internet must not get calls to this machine
        no_proxy, no_tls = urllib.request.ProxyHandler({}), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # A context of urllib's own would have loaded the system's certificates, in 50 ms.
        return urllib.request.build_opener(no_proxy, urllib.request.HTTPSHandler(context=no_tls))
    return urllib.request.build_opener(urllib.request.HTTPSHandler(context=tls_context()))


def token_request() -> Any:
    """What google-auth asks for tokens with."""
    from google.auth.transport.requests import Request

    if not ca_paths():
        return Request()
    import requests
    from requests.adapters import HTTPAdapter

    context = tls_context()

    class Trusting(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **options: Any) -> None:
            super().init_poolmanager(*args, ssl_context=context, **options)

        def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
            return super().proxy_manager_for(proxy, ssl_context=context, **options)

    session = requests.Session()
    session.mount("https://", Trusting())
    return Request(session)


def grpc_roots() -> bytes | None:
    """The certificates that gRPC trusts, as PEM; None for its own."""
    paths = ca_paths()
    if not paths:
        return None
    from requests import certs

    files = [Path(certs.where())]
    for path in paths:
        files += sorted(filter(Path.is_file, path.iterdir())) if path.is_dir() else [path]
    texts = dict.fromkeys(file.read_bytes() for file in files)
    return b"\n".join(text for text in texts if b"BEGIN CERTIFICATE" in text)


def grpc_proxy(host: str) -> list[tuple[str, Any]]:
    """Options of gRPC's channel to *host* ("tpu.googleapis.com"): it reads no variable in capitals,
    and no settings of the system.
    """
    if "grpc_proxy" in os.environ:  # gRPC's own, which it reads
        return []
    proxy = urllib.request.getproxies().get("https")
    if not proxy:
        return []
    if urllib.request.proxy_bypass(host):
        return [("grpc.enable_http_proxy", 0)]
    return [("grpc.http_proxy", proxy if "://" in proxy else f"http://{proxy}")]


def untrusted_certificate(said: object, who: str) -> TPUError | None:
    """The error for a server whose certificate is not trusted; None if *said*, the words of a
    library, are about something else.
    """
    if not _UNTRUSTED.search(str(said)):
        return None
    return TPUError(
        f"The certificate of {who} is not trusted here. A proxy of your company may replace it.",
        Reason.UNAVAILABLE,
        "Set SSL_CERT_FILE to a file with your company's certificates, and start Jupyter again.",
    )
