"""What libraries log in a process that is the user's own: a notebook runner, say."""

from __future__ import annotations

import logging


def warnings_only(name: str) -> None:
    """Keeps a library's logger to warnings and errors, unless the user has set its level.

    Programs such as papermill set the root logger to INFO for their own lines. Then each command on
    a host would be a line of their log.
    """
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
