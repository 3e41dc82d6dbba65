"""Jupyter's route of kernelspecs, without the command of TPU kernels.

The command is for clients that read kernelspecs on disk. A client of this server starts kernels by
their name; VS Code would show the command's program as the place where the kernel runs, which is
wrong.
"""

from __future__ import annotations

import json
from typing import Any

from ..kernels.specs import PROVISIONER


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
