"""What a host's Python does: one call, read from its input."""

import json
import os
import sys

from ..messages import Reports, TransferFailure, TransferPeer, decoded, failure
from ..other_host import other_host
from ..tree import is_private
from .entries import from_home
from .receiver import Receiver
from .sender import Listing, forget, load_list, save_list, send


def forward(list_id, targets, command, report, **settings):
    """Sends what a list has to another host, whose Python *command* starts.

    settings: those of its `Receiver`.
    """
    listing = load_list(list_id)
    request = {"call": "receive", "destination": targets, "list_id": list_id, **settings}
    with other_host(command, **request) as peer:
        return send(peer, listing, report)


def _is_private(root, path, is_folder):
    return is_private(path)


def main():
    reader, writer = sys.stdin.buffer, sys.stdout.buffer
    request = json.loads(reader.readline())
    call = request.pop("call")
    peer = TransferPeer(reader, writer)
    try:
        if call == "receive":
            Receiver(peer, report=lambda *_: None, **request).receive()
        elif call == "send":
            tops = [from_home(path) for path in request["sources"]]
            listing = Listing(tops, *([_is_private] if request["for_agent"] else [])).walk()
            send(peer, listing, lambda *_: None)
        elif call == "list":
            listing = Listing([from_home(path) for path in request["sources"]]).walk()
            save_list(request["list_id"], listing.tops, listing.entries)
            peer.send(result={"targets": [decoded(top) for top in listing.tops]})
        elif call == "forward":

            def report(done, total):
                peer.send(done=done, total=total)
                peer.flush()

            peer.send(result=forward(report=Reports(report), **request))
        elif call == "forget":
            forget(request["list_id"])
            peer.send(result={})
        peer.flush()
    except (TransferFailure, OSError) as error:
        why = error if isinstance(error, TransferFailure) else failure(error, error.filename or b"")
        try:
            peer.send(error=vars(why))
            peer.flush()
        except TransferFailure:
            os._exit(1)  # no one reads, so Python's own flush would fail, too
