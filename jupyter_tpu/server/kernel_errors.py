"""TPU kernels in Jupyter's own routes: their errors with status and reason, not as a 500, and in
one line of the log; kernels that are started without chips, or in a folder that the client names;
and kernelspecs without the command.

Jupyter Server answers 500 for every exception of a kernel's start or restart, some without its
text. So its handlers get a subclass that finds our error behind that.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import weakref
from typing import Any
from urllib.parse import unquote

from ..errors import TPUError
from ..kernels.requested import PROVISIONER, named_folder, without_chips
from ..language import accepted
from .events import KERNEL_REFUSED
from .languages import encoded, load
from .status import STATUS

#: A request header, "1": the kernel that the request starts uses no chips.
WITHOUT_CHIPS = "X-Jupyter-TPU-Without-Chips"
#: A request header, a path of this computer in percent encoding: the folder of the notebook whose
#: kernel the request starts. For editors, whose notebooks may be outside the server's folder.
FOLDER = "X-Jupyter-TPU-Folder"


def explain_kernel_errors(application: Any, log: logging.Logger) -> None:
    """Changes how the routes of kernels and sessions in *application* answer errors of ours, and
    how *log* shows them.
    """
    log.addFilter(OneLine())
    from jupyter_server.services.kernels.handlers import KernelActionHandler, MainKernelHandler
    from jupyter_server.services.sessions.handlers import SessionHandler, SessionRootHandler

    starting = MainKernelHandler, KernelActionHandler, SessionHandler, SessionRootHandler
    for rule in application.wildcard_router.rules:
        if isinstance(rule.target, type) and issubclass(rule.target, starting):
            rule.target = _explaining(rule.target)


def _explaining(base: Any) -> type:
    class ExplainingHandler(base):
        refused = False

        async def prepare(self) -> None:
            await super().prepare()
            self.language = accepted(self.request.headers.get("Accept-Language", ""))
            await load(self.language)
            without_chips.set(self.request.headers.get(WITHOUT_CHIPS) == "1")
            folder = unquote(self.request.headers.get(FOLDER, ""))
            is_folder = os.path.isabs(folder) and await asyncio.to_thread(os.path.isdir, folder)
            named_folder.set(folder if is_folder else "")

        def write_error(self, status_code: int, **kwargs: Any) -> None:
            problem = _problem(kwargs.get("exc_info", (None, None, None))[1])
            if problem is None:
                super().write_error(status_code, **kwargs)
            else:
                self._explain(problem)

        def finish(self, chunk: Any = None) -> Any:
            # A session that changes its kernel answers 501 where it handles the error.
            problem = _problem(sys.exc_info()[1]) if self.get_status() == 501 else None
            if problem is None:
                return super().finish(chunk)
            self.log_exception(None, problem, None)
            return self._explain(problem)

        def _explain(self, problem: TPUError) -> Any:
            self.set_status(STATUS.get(problem.reason, 500))
            self.set_header("Content-Type", "application/json")
            # JupyterLab shows only the message.
            fields = {
                "message": str(problem),
                "reason": problem.reason.value,
                "hint": problem.hint,
            }
            self.event_logger.emit(
                schema_id=KERNEL_REFUSED, data={**fields, "message": problem.message}
            )
            return super().finish(encoded(fields, self.language))

        def log_exception(self, kind: Any, error: Any, traceback: Any) -> None:
            problem = _problem(error)
            if problem is None:
                super().log_exception(kind, error, traceback)
            else:
                self.refused = True
                self.log.warning(problem)

        def _log(self) -> None:
            if not self.refused:  # the line that says why is enough
                super()._log()

    return ExplainingHandler


class OneLine(logging.Filter):
    """Shows an error of ours in one line and once. jupyter_client logs it with its traceback, and
    again in each manager that it passes through.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: weakref.WeakSet[TPUError] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        error: Any = record.msg
        problem = _problem(error) if isinstance(error, BaseException) else None
        if problem is None:
            return True
        if problem in self._shown:
            return False
        self._shown.add(problem)
        record.msg, record.args = "%s", (problem,)
        record.exc_info = record.exc_text = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def _problem(error: BaseException | None) -> TPUError | None:
    """Our error behind *error*, if there is one."""
    while error is not None and not isinstance(error, TPUError):
        error = error.__cause__
    return error


def hide_launchers(application: Any) -> None:
    """Changes what the routes of kernelspecs in *application* answer of kernelspecs of ours."""
    from jupyter_server.services.kernelspecs.handlers import (
        KernelSpecHandler,
        MainKernelSpecHandler,
    )

    for rule in application.wildcard_router.rules:
        if isinstance(rule.target, type):
            if issubclass(rule.target, MainKernelSpecHandler):
                rule.target = _hiding(rule.target, lambda answer: answer["kernelspecs"].values())
            elif issubclass(rule.target, KernelSpecHandler):
                rule.target = _hiding(rule.target, lambda answer: [answer])


def _hiding(base: Any, models: Any) -> type:
    class HidingHandler(base):
        def finish(self, chunk: Any = None) -> Any:
            if self.get_status() == 200 and isinstance(chunk, str):
                answer = json.loads(chunk)
                for model in models(answer):
                    spec = model["spec"]
                    provisioner = spec.get("metadata", {}).get("kernel_provisioner", {})
                    if provisioner.get("provisioner_name") == PROVISIONER:
                        spec["argv"] = []
                chunk = json.dumps(answer)
            return super().finish(chunk)

    return HidingHandler
