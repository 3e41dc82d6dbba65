"""Google's APIs in addition to Cloud TPU, as JSON over HTTP: Compute Engine, prices, permissions,
quotas.

Few of their calls are needed, so that no client library is loaded for them. An emulator has all of
them at its own address.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode

from ..errors import Reason, TPUError
from .auth import GoogleToken, load_grpc
from .errors import call_error
from .outbound import opener, untrusted_certificate
from .target import Place, Target

ANSWER_SECONDS = 20.0  # seconds, for one answer


class GoogleAPIs:
    """Calls with the credentials of *target*.

    All methods raise TPUError: NO_CREDENTIALS, PERMISSION (an API that is disabled, too),
    NOT_FOUND, UNAVAILABLE, TIMEOUT, INTERNAL.
    """

    def __init__(self, target: Target, project: str = "") -> None:
        self._target = target
        self._project = project
        self._place = Place(target)
        self._token = GoogleToken()
        self._ahead = timedelta()  # the clock there, over this computer's

    def now(self) -> datetime:
        """The time by the clock that answered last, to the second."""
        return datetime.now(UTC) + self._ahead

    async def get(self, api: str, path: str, **query: str) -> dict[str, Any]:
        """*api*: "compute"; *path*: "/compute/v1/projects/P"."""
        return await self.call("GET", api, path, None, **query)

    async def post(self, api: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """As :meth:`get`; *body* is sent as JSON."""
        return await self.call("POST", api, path, body)

    async def call(
        self, method: str, api: str, path: str, body: dict[str, Any] | None = None, **query: str
    ) -> dict[str, Any]:
        """As :meth:`get`, with any *method* ("PATCH")."""
        sent = None if body is None else json.dumps(body).encode()
        return await asyncio.to_thread(self._call, method, api, path, query, sent)

    def _call(
        self, method: str, api: str, path: str, query: dict[str, str], body: bytes | None
    ) -> dict[str, Any]:
        base, headers = self._sign_in()
        # An emulator has Cloud TPU at its root, and each other API under its name. (Compute
        # Engine's paths begin with it anyway.)
        bare = api == "tpu" or path.startswith(f"/{api}/")
        at_emulator = base if bare else f"{base}/{api}"
        url = (at_emulator if base else f"https://{api}.googleapis.com") + path
        request = urllib.request.Request(
            f"{url}?{urlencode(query)}" if query else url,
            data=body,
            method=method,
            headers={**headers, "Content-Type": "application/json"},
        )
        try:
            with opener(emulated=bool(base)).open(request, timeout=ANSWER_SECONDS) as response:
                answer = json.load(response)
                self._set_clock(response.headers.get("Date"))
        except urllib.error.HTTPError as error:
            self._set_clock(error.headers.get("Date"))
            raise self._refused(api, error) from error
        except TimeoutError as error:
            raise TPUError(
                f"{self._who(api)} did not answer within {ANSWER_SECONDS:.0f} s.",
                Reason.TIMEOUT,
                "Check the network connection, and try again.",
            ) from error
        except (OSError, HTTPException) as error:
            if (untrusted := untrusted_certificate(error, self._who(api))) is not None:
                raise untrusted from error
            raise TPUError(
                f"{self._who(api)} can't be reached: {error}.",
                Reason.UNAVAILABLE,
                "Check the network connection, and try again.",
            ) from error
        except ValueError as error:
            raise self._unreadable(api) from error
        if not isinstance(answer, dict):
            raise self._unreadable(api)
        return answer

    def _set_clock(self, date: str | None) -> None:
        with contextlib.suppress(ValueError):
            if date:
                self._ahead = parsedate_to_datetime(date) - datetime.now(UTC)

    def _sign_in(self) -> tuple[str, dict[str, str]]:
        """An emulator's address, and the headers that say who asks."""
        address = self._place.emulator
        if address is None:
            return "", self._token.headers(self._project)
        try:
            with open(address.token_file, encoding="ascii") as file:
                return address.rest, {"Authorization": f"Bearer {file.read().strip()}"}
        except OSError as error:
            raise TPUError(
                f"The emulator's token can't be read: {error}.",
                Reason.NO_CREDENTIALS,
                "Start the emulator again.",
            ) from error

    def _refused(self, api: str, error: urllib.error.HTTPError) -> TPUError:
        load_grpc()
        from google.api_core import exceptions

        try:
            payload = json.load(error)["error"]
            message, details = str(payload["message"]), payload.get("details", ())
            # Cloud TPU answers 409 for ABORTED, too.
            exists = api == "tpu" and payload.get("status") == "ALREADY_EXISTS"
        except (ValueError, KeyError, TypeError, OSError):
            message, details, exists = f"HTTP status {error.code}", (), False
        problem = call_error(
            exceptions.AlreadyExists(message, details=details)
            if exists
            else exceptions.from_http_status(error.code, message, details=details),
            timeout=ANSWER_SECONDS,
            project=self._project,
            emulated=self._target.emulator is not None,
        )
        if error.code == 401:
            self._token.refused()
        problem.hint = problem.hint.replace("tpu.googleapis.com", f"{api}.googleapis.com")
        if problem.reason is Reason.NOT_FOUND:
            problem.hint = "Check the project's name."
        return problem

    def _unreadable(self, api: str) -> TPUError:
        return TPUError(
            f"The answer of {self._who(api)} could not be read.", Reason.INTERNAL, "Try again."
        )

    def _who(self, api: str) -> str:
        return "The emulator" if self._target.emulator else f"{api}.googleapis.com"
