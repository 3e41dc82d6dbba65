"""The sessions that are stored, as a process in an environment reads them: see `session.stored`.

The daemon's own Python has none of the libraries that this needs.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any, Dict

from ..protocol import requests, umask
from ..protocol.process_env import process_environment
from ..protocol.timeouts import with_timeout
from .handlers import OperationError, handles

#: Seconds for a bucket to answer. Deleting takes a request for each file.
LIST_SECONDS, FORGET_SECONDS = 40.0, 240.0
_NO_ANSWER = "The place of the sessions did not answer in time."


class StoredSessions:
    """sources: what Python runs."""

    def __init__(self, sources: str) -> None:
        self._sources = sources

    @handles(requests.ListSessionsRequest)
    async def list(self, request: requests.ListSessionsRequest) -> requests.SessionsThere:
        query: Dict[str, Any] = {"do": "list", "place": request.place, "key": request.key}
        answer = await self._run(request.python, query, LIST_SECONDS)
        return {"sessions": answer.get("sessions", []), "problem": answer.get("problem", "")}

    @handles(requests.ForgetSessionRequest)
    async def forget(self, request: requests.ForgetSessionRequest) -> requests.ForgottenSession:
        query: Dict[str, Any] = {"do": "forget", "place": request.place, "key": request.key}
        query.update(name=request.name, of_pod=request.of_pod, mark=request.mark)
        answer = await self._run(request.python, query, FORGET_SECONDS)
        forgotten = bool(answer.get("forgotten"))
        return {"forgotten": forgotten, "problem": answer.get("problem", "")}

    @handles(requests.CopySessionRequest)
    async def copy(self, request: requests.CopySessionRequest) -> requests.SessionCopy:
        query: Dict[str, Any] = {"do": "unlink" if request.ended else "link", "key": request.key}
        query.update(name=request.name, copy=request.copy, of_pod=request.of_pod)
        answer = await self._run(request.python, query, FORGET_SECONDS)
        return {
            "size": answer.get("size", 0),
            "save": answer.get("save", ""),
            "problem": answer.get("problem", ""),
        }

    async def _run(self, python: str, query: Dict[str, Any], seconds: float) -> Dict[str, Any]:
        given = json.dumps(query).encode()
        try:
            process = await asyncio.create_subprocess_exec(
                python,
                self._sources,
                "sessions",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=process_environment(python),
                **umask.of_login(),
            )
        except OSError as error:
            raise OperationError(
                "ENVIRONMENT",
                "The environment's Python can't be run: %s." % error,
                "Connect the TPU again to repair its environment.",
            ) from None
        try:
            # By stdin, because the list of processes must not show the key.
            out, _ = await with_timeout(process.communicate(given), seconds)
            return dict(json.loads(out.splitlines()[-1]))
        except asyncio.TimeoutError:
            raise OperationError("TIMEOUT", _NO_ANSWER, "Try again later.") from None
        except (ValueError, IndexError, TypeError):
            return {"problem": "The program that reads sessions ended without an answer."}
        finally:
            if process.returncode is None:
                process.kill()
