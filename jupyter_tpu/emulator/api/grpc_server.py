"""The gRPC transport: generic handlers that check the token, call the API and translate errors.

Local server credentials go with the client's local channel credentials: they are what lets a
client send its token (call credentials) over a loopback connection without TLS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from grpc_status import rpc_status

from ..model import api_errors
from ..state_folder import Token
from . import messages
from .v2 import Calls


def make_server(calls: Calls, token: Token) -> grpc.aio.Server:
    """A server with all services, no port yet."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(
        tuple(
            grpc.method_handlers_generic_handler(
                service,
                {
                    name: grpc.unary_unary_rpc_method_handler(
                        _handler(calls, name, answer, token),
                        request_deserializer=request_class.FromString,
                        response_serializer=lambda message: message.SerializeToString(),
                    )
                    for name, (request_class, answer) in table.items()
                },
            )
            for service, table in calls.table.items()
        )
    )
    return server


def bind(server: grpc.aio.Server, port: int) -> int:
    """Binds a loopback port (0: any) and returns it; OSError if it is taken."""
    credentials = grpc.local_server_credentials(grpc.LocalConnectionType.LOCAL_TCP)
    try:
        return server.add_secure_port(f"127.0.0.1:{port}", credentials)
    except RuntimeError as error:
        raise OSError(str(error)) from error


def _handler(calls: Calls, name: str, answer: Callable[[Any], Any], token: Token) -> Any:
    async def handle(request: Any, context: grpc.aio.ServicerContext) -> Any:
        sent = dict(context.invocation_metadata() or ()).get("authorization", "")
        try:
            if not token.allows(sent):
                raise api_errors.unauthenticated()
            return await calls.call(name, answer, request)
        except api_errors.ApiError as error:
            status: Any = rpc_status.to_status(messages.status_message(error))
            context.set_trailing_metadata(status.trailing_metadata)
            await context.abort(status.code, status.details, status.trailing_metadata)

    return handle
