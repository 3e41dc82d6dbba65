"""An error that is expected, with its reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from jupyter_tpu.errors import Reason, TPUError


@contextlib.contextmanager
def raises(reason: Reason, match: str | None = None) -> Iterator[pytest.ExceptionInfo[TPUError]]:
    """As `pytest.raises`; *match* is for the message."""
    with pytest.raises(TPUError, match=match) as caught:
        yield caught
    assert caught.value.reason is reason, caught.value
