"""The lists of what copies brought to this host, for the next host."""

import json
import os
import time

from .protocol import CopyEntry, decoded, encoded
from .sender import Listing

FOLDER = b".cache/jupyter-tpu/copies"
#: Seconds for which a list is kept.
KEPT = 86400


def list_path(list_id):
    return os.path.join(os.path.expanduser(b"~"), FOLDER, os.path.basename(encoded(list_id)))


def save_list(list_id, tops, entries):
    path = list_path(list_id)
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(json.dumps([[decoded(top) for top in tops], entries]).encode())


def load_list(list_id):
    with open(list_path(list_id), "rb") as file:
        tops, entries = json.loads(file.read())
    listing = Listing([encoded(top) for top in tops])
    listing.entries = [CopyEntry(*entry) for entry in entries]
    return listing


def forget(list_id):
    """Deletes the list of a copy, and those that were left."""
    folder = os.path.dirname(list_path(list_id))
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        try:
            if path == list_path(list_id) or os.stat(path).st_mtime < time.time() - KEPT:
                os.unlink(path)
        except FileNotFoundError:
            pass
