"""Answers one call."""

import errno
import json
import signal
import sys
import threading

from .look import probe
from .make import install, mark, venv, verify
from .processes import stop, watch_reader
from .speech import Problem, full_disk, say
from .tensorboard import end_tensorboard, tensorboard, trace
from .uv import get_uv

CALLS: dict = {
    "probe": probe,
    "get_uv": get_uv,
    "venv": venv,
    "install": install,
    "verify": verify,
    "mark": mark,
    "tensorboard": tensorboard,
    "end_tensorboard": end_tensorboard,
    "trace": trace,
}


def main():
    request = json.load(sys.stdin)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    threading.Thread(target=watch_reader, daemon=True).start()
    call = CALLS[request.pop("call")]
    try:
        say(result=call(**request))
    except Problem as problem:
        say(error=problem.told)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            say(error=full_disk(error.strerror).told)
        else:
            say(error=["ENVIRONMENT", "%s." % error, "The log says more."])
