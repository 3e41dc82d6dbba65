"""The gRPC transport: generic handlers that check the token, call the API and translate errors.

Local server credentials go with the client's local channel credentials: they are what lets a
client send its token (call credentials) over a loopback connection without TLS.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from grpc_status import rpc_status

from ..model import api_errors
from ..state_folder import EmulatorToken
from . import messages
from .calls import OPERATIONS, Api
from .schema import VERSIONS


def make_server(api: Api, token: EmulatorToken) -> grpc.aio.Server:
    """A server with all services, no port yet."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((_Services(api, token),))
    return server


class _Services(grpc.GenericRpcHandler):
    """Finds what answers a call; a version's messages are made at its first call."""

    def __init__(self, api: Api, token: EmulatorToken) -> None:
        self._api = api
        self._token = token

    def service(self, handler_call_details: Any) -> Any:
        _, service, name = handler_call_details.method.split("/")
        version = service.split(".")[3] if service.startswith("google.cloud.tpu.") else VERSIONS[0]
        calls = self._api.version(version)
        if calls is None or (request_class := calls.request_class(service, name)) is None:
            return None

        async def call(request: Any) -> Any:
            answering = calls
            if service == OPERATIONS:  # one service for the operations of all versions
                answering = self._api.version(self._api.version_of(request.name)) or calls
            return await answering.call(service, name, request)

        return grpc.unary_unary_rpc_method_handler(
            _handler(call, self._token),
            request_deserializer=request_class.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )


def bind(server: grpc.aio.Server, port: int) -> int:
    """Binds a loopback port (0: any) and returns it; OSError if it is taken."""
    credentials = grpc.local_server_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    try:
        return server.add_secure_port(f"127.0.0.1:{port}", credentials)
    except RuntimeError as error:
        raise OSError(str(error)) from error


def _handler(call: Callable[[Any], Awaitable[Any]], token: EmulatorToken) -> Any:
    async def handle(request: Any, context: grpc.aio.ServicerContext) -> Any:
        sent = dict(context.invocation_metadata() or ()).get("authorization", "")
        try:
            if not token.allows(sent):
                raise api_errors.unauthenticated()
            return await call(request)
        except api_errors.ApiError as error:
            status: Any = rpc_status.to_status(messages.status_message(error))
            context.set_trailing_metadata(status.trailing_metadata)
            await context.abort(status.code, status.details, status.trailing_metadata)

    return handle
