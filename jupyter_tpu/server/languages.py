"""What leaves the server in the reader's language: answers, errors and events.

A client names its language: requests by Accept-Language, a subscriber to events by ``?language=``.
Who names none, or one without translations, gets English.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..language import catalogue_of, in_language, on_pages
from .events import CHANGE, KERNEL_REFUSED


async def load(catalogue: str) -> None:
    """Reads a catalogue beside the loop, so that sentences are translated at once after that."""
    if catalogue:
        await asyncio.to_thread(lambda: on_pages(catalogue).templates)


def translated(value: Any, catalogue: str) -> Any:
    """*value* as JSON has it, with its sentences in the language of *catalogue*; "" for English."""
    import msgspec

    plain = msgspec.to_builtins(value)
    return in_language(plain, on_pages(catalogue)) if catalogue else plain


def encoded(value: Any, catalogue: str) -> bytes:
    """*value* as JSON, in the language of *catalogue*."""
    import msgspec

    return msgspec.json.encode(translated(value, catalogue) if catalogue else value)


async def encoded_aside(value: Any, catalogue: str) -> bytes:
    """As `encoded`; a long answer that has to be translated does not keep the loop."""
    import msgspec

    if not catalogue:
        return msgspec.json.encode(value)
    return await asyncio.to_thread(encoded, value, catalogue)


def translate_events(application: Any) -> None:
    """Lets subscribers to Jupyter's events in *application* name the language of ours."""
    from jupyter_server.services.events.handlers import SubscribeWebsocket

    for rule in application.wildcard_router.rules:
        if isinstance(rule.target, type) and issubclass(rule.target, SubscribeWebsocket):
            rule.target = _translating(rule.target)


def _translating(base: Any) -> type:
    # Each language's last event, and that in this language: subscribers get the same one in turn.
    latest: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def in_its_language(data: dict[str, Any], catalogue: str) -> dict[str, Any]:
        if latest.get(catalogue, (None,))[0] is not data:
            latest[catalogue] = data, translated(data, catalogue)
        return latest[catalogue][1]

    class TranslatingSubscriber(base):
        catalogue = ""

        async def get(self, *arguments: Any, **options: Any) -> None:
            self.catalogue = catalogue_of(self.get_query_argument("language", ""))
            await load(self.catalogue)
            await super().get(*arguments, **options)

        async def event_listener(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
            if self.catalogue and schema_id in (CHANGE, KERNEL_REFUSED):
                data = in_its_language(data, self.catalogue)
            await super().event_listener(logger, schema_id, data)

    return TranslatingSubscriber
