"""Changes as Jupyter events, on ``/api/events/subscribe``."""

from __future__ import annotations

from typing import Any

#: The schema's id, by which listeners recognise our events.
CHANGE = "https://events.jupyter-tpu.org/change/v1"

#: The schema's id of a kernel that could not be started or restarted.
KERNEL_REFUSED = "https://events.jupyter-tpu.org/kernel-refused/v1"

#: For clients that do not show what the request was answered with, such as VS Code.
REFUSED_SCHEMA: dict[str, Any] = {
    "$id": KERNEL_REFUSED,
    "version": "1",
    "title": "A kernel on a TPU could not be started or restarted",
    "personal-data": True,
    "description": "Why, as the request was answered.",
    "type": "object",
    "required": ["message", "reason", "hint"],
    "properties": {name: {"type": "string"} for name in ("message", "reason", "hint")},
}

#: It does not describe the objects, which the OpenAPI document does: validating an operation's
#: whole log for each new line would be expensive.
SCHEMA: dict[str, Any] = {
    "$id": CHANGE,
    "version": "1",
    "title": "A change of a TPU, operation, kernel on a TPU, tunnel, app, run, job, hunt, grant, "
    "queued resource or session, of prices or budgets",
    "personal-data": True,
    "description": "The new state of one thing, or that it is gone.",
    "type": "object",
    "required": ["what", "id"],
    "properties": {
        "what": {
            "enum": [
                *("tpu", "operation", "kernel", "tunnel", "app", "run", "job", "hunt"),
                *("grant", "queued", "prices", "budgets", "session"),
            ],
            "description": "Which field carries the new state.",
        },
        "id": {
            "type": "string",
            "description": "zone/name of a TPU or queued resource; name of a grant; "
            '"prices"; "budgets"; of all others their id.',
        },
        "gone": {"type": "boolean", "description": "It no longer exists."},
        "tpu": {"type": ["object", "null"], "description": "TPU of the OpenAPI document."},
        "operation": {"type": ["object", "null"], "description": "Operation of that document."},
        "kernel": {"type": ["object", "null"], "description": "Kernel of that document."},
        "tunnel": {"type": ["object", "null"], "description": "Tunnel of that document."},
        "job": {"type": ["object", "null"], "description": "Job of that document."},
        "hunt": {"type": ["object", "null"], "description": "Hunt of that document."},
        "grant": {"type": ["object", "null"], "description": "Grant of that document."},
        "queued": {
            "type": ["object", "null"],
            "description": "QueuedResource of that document.",
        },
        "prices": {"type": ["object", "null"], "description": "PriceList of that document."},
        "budgets": {
            "type": ["object", "null"],
            "description": "BudgetOverview of that document.",
        },
        "app": {"type": ["object", "null"], "description": "App of that document."},
        "run": {"type": ["object", "null"], "description": "Run of that document."},
        "session": {"type": ["object", "null"], "description": "Session of that document."},
    },
}
