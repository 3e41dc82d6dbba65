"""What of an answer is for people to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .sentences import Sentences

#: The fields of models that are sentences or labels for people, or lists of them.
SENTENCES = {
    *("advice", "api_reason", "blocked", "cause", "changes", "explanation", "hint"),
    *("jobs_text", "kernels_text", "notice"),
    *("last_error", "local_port_reason", "log", "lost", "meaning", "message", "no_restart", "note"),
    *("notes", "outside", "paused", "problem", "problems", "question", "restored"),
    *("sessions_text", "storage_check", "text"),
    *("title", "uncovered", "warning", "warnings", "why", "zone_reason"),
}
#: What users or their programs wrote.
VERBATIM = {"content", "data", "lines", "request", "variables"}


def in_language(value: Any, sentences: Sentences) -> Any:
    """A copy of *value*, which is as JSON has it, with its sentences translated.

    Names, paths, output and states stay.
    """
    if isinstance(value, dict):
        return {name: _field(name, content, sentences) for name, content in value.items()}
    if isinstance(value, list):
        return [in_language(entry, sentences) for entry in value]
    return value


def _field(name: Any, content: Any, sentences: Sentences) -> Any:
    if name in VERBATIM:
        return content
    if name in SENTENCES:
        if isinstance(content, str):
            return sentences.translate(content)
        if isinstance(content, list) and all(isinstance(entry, str) for entry in content):
            return [sentences.translate(entry) for entry in content]
    return in_language(content, sentences)
