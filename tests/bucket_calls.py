"""Calls of the emulator's Cloud Storage by plain HTTP, for what Google's clients do not send."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit


class Refused(Exception):
    """An answer that is an error, or 304."""

    def __init__(self, status: int, content: bytes) -> None:
        super().__init__(f"{status} {content.decode(errors='replace')}")
        self.status = status
        self.error = json.loads(content)["error"] if content else {}


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.content = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.content)


class StorageHTTP:
    """One connection. *root*: the address of the API; *token*: "" for none."""

    def __init__(self, root: str, token: str) -> None:
        self._root = urlsplit(root)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._connection = http.client.HTTPConnection(self._root.netloc, timeout=60)

    @classmethod
    def of_owner(cls, emulator: Any) -> StorageHTTP:
        token = Path(emulator.state.token_file).read_text().strip()
        return cls(emulator.state.rest, token)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        allowed: tuple[int, ...] = (200, 204, 206),
        **query: Any,
    ) -> Answer:
        """*path*: of one part for each object, such as ``object_path`` makes it, or a whole URL."""
        shown = {name: value for name, value in query.items() if value is not None}
        url = urlsplit(path)
        target = (url.path if url.netloc else self._root.path + url.path) + (
            f"?{urlencode(shown)}" if shown else f"?{url.query}"
        )
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._connection.request(method, target, data, {**self._headers, **(headers or {})})
        answer = Answer(self._connection.getresponse())
        if answer.status not in allowed:
            raise Refused(answer.status, answer.content)
        return answer

    def create_bucket(self, name: str, **fields: Any) -> Any:
        return self.call("POST", "/storage/v1/b", {"name": name, **fields}, project="emulated").json

    def upload(self, bucket: str, name: str, content: bytes, **query: Any) -> Any:
        path = f"/upload/storage/v1/b/{bucket}/o"
        return self.call("POST", path, content, uploadType="media", name=name, **query).json

    def read(self, bucket: str, name: str, **query: Any) -> bytes:
        return self.call("GET", object_path(bucket, name), alt="media", **query).content

    def close(self) -> None:
        self._connection.close()


def object_path(bucket: str, name: str) -> str:
    return f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
