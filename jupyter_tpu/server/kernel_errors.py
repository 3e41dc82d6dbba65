"""Errors of TPU kernels in Jupyter's own routes: with their status and reason, not as a 500.

Jupyter Server answers 500 for every exception of a kernel's start or restart, some without its
text. So its handlers get a subclass that finds our error behind that.
"""

from __future__ import annotations

import json
from typing import Any

from ..errors import TPUError
from .events import KERNEL_REFUSED
from .handlers import STATUS


def explain_kernel_errors(application: Any) -> None:
    """Changes how the routes of kernels and sessions in *application* answer errors of ours."""
    from jupyter_server.services.kernels.handlers import KernelActionHandler, MainKernelHandler
    from jupyter_server.services.sessions.handlers import SessionHandler, SessionRootHandler

    starting = MainKernelHandler, KernelActionHandler, SessionHandler, SessionRootHandler
    for rule in application.wildcard_router.rules:
        if isinstance(rule.target, type) and issubclass(rule.target, starting):
            rule.target = _explaining(rule.target)


def _explaining(base: Any) -> type:
    class ExplainingHandler(base):
        def write_error(self, status_code: int, **kwargs: Any) -> None:
            problem = _problem(kwargs.get("exc_info", (None, None, None))[1])
            if problem is None:
                super().write_error(status_code, **kwargs)
                return
            self.set_status(STATUS.get(problem.reason, 500))
            self.set_header("Content-Type", "application/json")
            # JupyterLab shows only the message.
            fields = {
                "message": str(problem),
                "reason": problem.reason.value,
                "hint": problem.hint,
            }
            self.finish(json.dumps(fields))
            self.event_logger.emit(
                schema_id=KERNEL_REFUSED, data={**fields, "message": problem.message}
            )

        def log_exception(self, kind: Any, error: Any, traceback: Any) -> None:
            problem = _problem(error)
            if problem is None:
                super().log_exception(kind, error, traceback)
            else:
                self.log.warning("%s: %s", self._request_summary(), problem)

    return ExplainingHandler


def _problem(error: BaseException | None) -> TPUError | None:
    """Our error behind *error*, if there is one."""
    while error is not None and not isinstance(error, TPUError):
        error = error.__cause__
    return error
