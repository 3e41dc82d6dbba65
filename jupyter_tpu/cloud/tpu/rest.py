"""A few reads of the API over plain HTTP, for a process that asks once and ends.

Loading Google's client takes longer than everything else that `ssh my-tpu` does, and than a short
copy. This asks the same API's REST side with the standard library. Without an answer it returns
None; `Cloud` can say why.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote

from ...errors import TPUError
from ..auth import GoogleToken
from ..models import GuestAttributes, Node, NodeName
from ..outbound import opener
from ..target import Target
from .nodes import node_path, parse_guest_attributes, parse_node

T = TypeVar("T")

GOOGLE_ADDRESS = "https://tpu.googleapis.com"
ANSWER_SECONDS = 10.0  # seconds, for one answer


class RestReader:
    """Reads from the API of *target*. Blocks while it waits for an answer."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._access: tuple[str, dict[str, str]] | None = None  # base URL and headers

    def nodes(self, project: str) -> list[Node] | None:
        """All nodes of a project; None without an answer, or where it is not all of them."""
        path = f"/v2/projects/{quote(project)}/locations/-/nodes"
        return self._read(path, None, _parse_nodes)

    def node(self, name: NodeName) -> Node | None:
        """The node as `Cloud.get_node` gives it; None without an answer."""
        return self._read(f"/v2/{quote(node_path(name))}", None, parse_node)

    def guest_attributes(self, name: NodeName) -> list[GuestAttributes] | None:
        """What the hosts published, as `Cloud.guest_attributes` gives it, or None."""
        return self._read(
            f"/v2/{quote(node_path(name))}:getGuestAttributes", b"{}", parse_guest_attributes
        )

    @cached_property
    def _opener(self) -> urllib.request.OpenerDirector:
        return opener(emulated=self._target.emulator is not None)

    def _read(self, path: str, body: bytes | None, parse: Callable[[Any], T]) -> T | None:
        try:
            if self._access is None:
                self._access = (
                    _emulator_access(self._target.emulator)
                    if self._target.emulator
                    else (GOOGLE_ADDRESS, GoogleToken().headers(self._target.project or ""))
                )
            base, headers = self._access
            request = urllib.request.Request(
                base + path,
                data=body,
                headers={**headers, "Content-Type": "application/json"},
            )
            with self._opener.open(request, timeout=ANSWER_SECONDS) as response:
                return parse(json.load(response))
        except (TPUError, OSError, ValueError, KeyError, AttributeError, TypeError):
            return None  # not reached, refused, or not what the API answers


def _parse_nodes(page: Any) -> list[Node]:
    if page.get("nextPageToken") or page.get("unreachable"):
        raise ValueError("not all")
    return [parse_node(node) for node in page.get("nodes", ())]


def _emulator_access(state_file: str) -> tuple[str, dict[str, str]]:
    with open(state_file, encoding="utf-8") as file:
        state = json.load(file)
    with open(state["token_file"], encoding="ascii") as file:
        return state["rest"], {"Authorization": f"Bearer {file.read().strip()}"}
