"""The fleet's part ``tokens``: which tokens of this computer TPUs get, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ... import tokens
from ...errors import Reason, TPUError
from ..models import PassTokens, Token


class Tokens:
    """As a :class:`~jupyter_tpu.fleet.api.TokensAPI`. The files are read in threads."""

    async def list(self) -> Sequence[Token]:
        return await asyncio.to_thread(_found)

    async def pass_on(self, request: PassTokens) -> Sequence[Token]:
        await asyncio.to_thread(tokens.pass_on, *request.names)
        return await self.list()

    async def remove(self, name: str) -> None:
        if not await asyncio.to_thread(tokens.keep_back, name):
            raise TPUError(f"{name} is not passed to TPUs.", Reason.NOT_FOUND)


def _found() -> Sequence[Token]:
    return [
        Token(name=name, source=token_value.source)
        if (token_value := tokens.find(name))
        else Token(name=name, hint=tokens.how_to_set(name))
        for name in tokens.passed_names()
    ]
