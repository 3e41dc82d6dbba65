"""Runs one call: from a request on standard input to a result or an error."""

import errno
import json
import signal
import sys
import threading

from .processes import stop, watch_reader
from .protocol import HostError, disk_full, emit


def serve(calls):
    """Runs the function of *calls* (by their names) that the request means."""
    request = json.load(sys.stdin)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    threading.Thread(target=watch_reader, daemon=True).start()
    call = calls[request.pop("call")]
    try:
        emit(result=call(**request))
    except HostError as error:
        emit(error=error.payload)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            emit(error=disk_full(error.strerror).payload)
        else:
            emit(error=["ENVIRONMENT", "%s." % error, "The log has details."])
