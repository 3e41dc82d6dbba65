"""The API client, with Google's channel and credentials or the emulator's."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Reason, TPUError
from ..wording import first_sentence
from . import gcloud
from .outbound import grpc_proxy, grpc_roots, token_request, untrusted_certificate
from .target import EmulatorAddress

if TYPE_CHECKING:
    from google.cloud.tpu_v2 import TpuAsyncClient

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOGIN = "Log in with `gcloud auth application-default login`."

#: Looking for credentials may ask a metadata server that does not answer.
_CREDENTIALS_LIMIT = 30.0  # seconds


def load_grpc() -> None:
    """Call it before Google's libraries are imported, which import gRPC.

    Else its handlers print a warning at each fork, such as that of `!cmd` in a notebook, and a line
    for each connection that fails, which our error says. It reads the variables when it is
    imported; the programs that are started from here should not get them.
    """
    quiet = {"GRPC_ENABLE_FORK_SUPPORT": "0", "GRPC_VERBOSITY": "ERROR"}
    added = {name: value for name, value in quiet.items() if name not in os.environ}
    if "grpc" in sys.modules:
        return
    os.environ.update(added)
    try:
        import grpc  # noqa: F401
    finally:
        for name in added:
            os.environ.pop(name, None)


_grpc_process = 0  # the one that uses gRPC


def grpc_works() -> bool:
    """Whether gRPC can be used from now on. It can't in a fork of a process that has used it."""
    global _grpc_process
    _grpc_process = _grpc_process or os.getpid()
    return _grpc_process == os.getpid()


async def google_client() -> TpuAsyncClient:
    """A client with Application Default Credentials; NO_CREDENTIALS where there are none."""
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

    try:
        async with asyncio.timeout(_CREDENTIALS_LIMIT):
            credentials = await asyncio.to_thread(default_credentials)
    except DefaultCredentialsError as error:
        if gcloud.credentials_file() is None:
            message = "No Google Cloud credentials were found on this machine."
        else:
            message = f"The Google Cloud credentials can't be used: {first_sentence(str(error))}"
        raise TPUError(message, Reason.NO_CREDENTIALS, LOGIN) from error
    except (TimeoutError, GoogleAuthError) as error:
        raise TPUError(
            "The Google Cloud credentials can't be loaded: "
            + (first_sentence(str(error)) or "no answer in time."),
            Reason.NO_CREDENTIALS,
            LOGIN,
        ) from error
    from google.cloud.tpu_v2 import TpuAsyncClient
    from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport

    def transport(**settings: Any) -> TpuGrpcAsyncIOTransport:
        return TpuGrpcAsyncIOTransport(**{**settings, "channel": _google_channel})

    return TpuAsyncClient(credentials=credentials, transport=transport)


def _google_channel(
    host: str,
    *,
    credentials: Any,
    ssl_credentials: Any = None,
    options: Any = (),
    **settings: Any,
) -> Any:
    """A channel as Google's library makes it, through the proxy and with the certificates that this
    computer is set to.
    """
    import grpc
    from google.auth.transport.grpc import AuthMetadataPlugin
    from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport

    name = host.partition(":")[0]
    options = [*options, *grpc_proxy(name)]
    roots = grpc_roots()
    if roots is None or ssl_credentials is not None:  # a certificate of this computer's own
        return TpuGrpcAsyncIOTransport.create_channel(
            host,
            credentials=credentials,
            ssl_credentials=ssl_credentials,
            options=options,
            **settings,
        )
    # Which certificates the library asks for tokens with can't be said to it.
    plugin = AuthMetadataPlugin(credentials, token_request(), default_host=name)
    return grpc.aio.secure_channel(
        host,
        grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(roots), grpc.metadata_call_credentials(plugin)
        ),
        options=options,
    )


class GoogleToken:
    """The access token of the Application Default Credentials, for as long as a process runs.

    It is asked for when it is needed, and again shortly before it expires. For any thread.
    """

    def __init__(self) -> None:
        self._credentials: Any = None
        self._lock = threading.Lock()

    def headers(self, project: str = "") -> dict[str, str]:
        """The headers of a call about a *project* ("" for none). Raises NO_CREDENTIALS."""
        with self._lock:
            if self._credentials is None or not self._credentials.valid:
                self._credentials = None  # so that a login since then is seen
                self._credentials = _fresh_credentials()
            token = {"Authorization": f"Bearer {self._credentials.token}"}
            quota_project = _quota_project(self._credentials, project)
            return token | ({"X-Goog-User-Project": quota_project} if quota_project else {})

    def refused(self) -> None:
        """Google does not take the token (any more)."""
        self._credentials = None


def service_account() -> str:
    """The address of the service account of the Application Default Credentials; "" if they are a
    person's. Raises NO_CREDENTIALS.
    """
    return str(getattr(_fresh_credentials(), "service_account_email", "") or "")


def _quota_project(credentials: Any, project: str) -> str:
    """The project whose quota of calls is used: the credentials' own. A person's may name none, and
    some APIs insist on one; a service account has that in which it was made.
    """
    if own := getattr(credentials, "quota_project_id", None):
        return str(own)
    from google.auth import external_account_authorized_user
    from google.oauth2 import credentials as user

    people = (user.Credentials, external_account_authorized_user.Credentials)
    return project if isinstance(credentials, people) else ""


def _fresh_credentials():
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

    try:
        credentials = default_credentials()
        credentials.refresh(token_request())
    except (DefaultCredentialsError, GoogleAuthError) as error:
        if (untrusted := untrusted_certificate(error, "Google's login")) is not None:
            raise untrusted from error
        raise TPUError(
            f"The Google Cloud credentials can't be used: {first_sentence(str(error))}",
            Reason.NO_CREDENTIALS,
            LOGIN,
        ) from error
    return credentials


def default_credentials():
    import google.auth

    path = gcloud.credentials_file()
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if path is None and named:  # it goes first, so logging in would not help
        raise TPUError(
            f"GOOGLE_APPLICATION_CREDENTIALS is {named}, but this file does not exist.",
            Reason.NO_CREDENTIALS,
            "Correct the variable, or unset it and type `gcloud auth application-default login`.",
        )
    if path is None:  # a service account of the machine, or none
        return google.auth.default(scopes=[SCOPE])[0]
    # default() would find the same file, but runs gcloud to learn a project we don't need. Like
    # default() we may use any kind of credentials: the file is the user's own.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return google.auth.load_credentials_from_file(
            str(path),
            scopes=[SCOPE],
            quota_project_id=os.environ.get("GOOGLE_CLOUD_QUOTA_PROJECT"),
        )[0]


def emulator_client(address: EmulatorAddress) -> TpuAsyncClient:
    """A client for the emulator: gRPC's local credentials, which only accept this machine as the
    peer, composed with a call credential that carries the emulator's token.
    """
    import grpc
    from google.cloud.tpu_v2 import TpuAsyncClient
    from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcAsyncIOTransport

    class Token(grpc.AuthMetadataPlugin):
        def __call__(self, context, callback) -> None:
            try:
                token = Path(address.token_file).read_text(encoding="ascii").strip()
            except OSError as error:
                callback((), error)
            else:
                callback((("authorization", f"Bearer {token}"),), None)

    channel = grpc.aio.secure_channel(
        address.grpc,
        grpc.composite_channel_credentials(
            grpc.local_channel_credentials(), grpc.metadata_call_credentials(Token())
        ),
        # A proxy that is set for the internet must not get calls to this machine.
        options=[("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)],
    )
    return TpuAsyncClient(transport=TpuGrpcAsyncIOTransport(channel=channel))
