"""A node's fast_lookup over plain HTTP, for a process that asks one question and is gone.

Loading Google's client takes longer than all else that `ssh my-tpu` does. This reads the same API's
REST face with what is loaded anyway. It answers or it does not (None): whoever needs to know why
asks `Cloud`.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from urllib.error import URLError
from urllib.parse import quote

from ..models import Endpoint, GuestAttributes, Node, NodeName
from ..target import Target

GOOGLE = "https://tpu.googleapis.com"

#: Seconds for one answer.
_LIMIT = 10.0


class RestReader:
    """Where *target*'s API is, and what lets us in. Blocks while it asks."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._place: tuple[str, str] | None = None  # base URL and token

    def node(self, name: NodeName) -> Node | None:
        """The node, with what is needed to reach it."""
        found = self._ask(f"/v2/{quote(name.path)}")
        if found is None:
            return None
        try:
            return Node(
                name=name,
                id=str(found["id"]),
                type=found.get("acceleratorType", ""),
                state=found["state"],
                endpoints=tuple(
                    Endpoint(
                        internal=each.get("ipAddress", ""),
                        external=each.get("accessConfig", {}).get("externalIp", ""),
                    )
                    for each in found.get("networkEndpoints", ())
                ),
                metadata=dict(found.get("metadata", {})),
            )
        except (KeyError, AttributeError, TypeError):
            return None

    def guest_attributes(self, name: NodeName) -> list[GuestAttributes] | None:
        """What the hosts published, as `Cloud.guest_attributes` gives it."""
        found = self._ask(f"/v2/{quote(name.path)}:getGuestAttributes", {})
        if found is None:
            return None
        try:
            return [
                {
                    (item["namespace"], item["key"]): item["value"]
                    for item in worker.get("queryValue", {}).get("items", ())
                }
                for worker in found["guestAttributes"]
            ]
        except (KeyError, AttributeError, TypeError):
            return None

    def _ask(self, path: str, body: Any = None) -> dict[str, Any] | None:
        try:
            if self._place is None:
                self._place = self._emulator() if self._target.emulator else _google()
            base, token = self._place
            request = urllib.request.Request(
                base + path,
                data=None if body is None else json.dumps(body).encode(),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            # A proxy that is set for the internet must not get calls to this machine.
            direct = [urllib.request.ProxyHandler({})] if self._target.emulator else []
            with urllib.request.build_opener(*direct).open(request, timeout=_LIMIT) as answer:
                found = json.load(answer)
        except (URLError, OSError, ValueError, KeyError):
            return None
        return found if isinstance(found, dict) else None

    def _emulator(self) -> tuple[str, str]:
        assert self._target.emulator is not None
        with open(self._target.emulator, encoding="utf-8") as file:
            state = json.load(file)
        with open(state["token_file"], encoding="ascii") as file:
            return state["rest"], file.read().strip()


def _google() -> tuple[str, str]:
    """Raises OSError where there is no token to be had this way."""
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    from ..auth import default_credentials

    try:
        credentials = default_credentials()
        credentials.refresh(Request())
    except GoogleAuthError as error:
        raise OSError(str(error)) from error
    return GOOGLE, credentials.token
