"""``%tpu run``: a command on hosts, with its output in the cell."""

from __future__ import annotations

import codecs
import sys
from typing import TYPE_CHECKING

from ..commands.session import open_session
from ..commands.terminal import write_plain
from .failures import MagicError

if TYPE_CHECKING:
    from ..fleet.models import StartRun


def run_command(tpu: str | None, request: StartRun) -> None:
    """Runs it on *tpu*, or the only one that is READY. An interrupt stops it on all hosts.

    Raises MagicError, with how it ended on each host, unless its exit code is 0 on all.
    """
    from ..commands import runs
    from ..commands.scripts import only_tpu

    decoders = {
        stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in ("stdout", "stderr")
    }

    def write(stream: str, data: bytes) -> None:
        out = sys.stdout if stream == "stdout" else sys.stderr
        write_plain(out, decoders[stream].decode(data))

    with open_session() as session:
        ref = tpu or only_tpu(session)
        ended = runs.execute(session, ref, request, lambda run: runs.output_to(write, run))
    if ended.code:
        raise MagicError("\n".join(runs.summary(ended)))
