"""Lists and deletes stored sessions, without a kernel: what the daemon runs in an environment.

Reads a request on standard input, and prints the answer as one line of JSON. Nothing is unpickled.
"""

import json
import os
import sys

from .command import FOLDER, KEY_FILE
from .requested import LONGEST_WHY, MOST_NAMED
from .storage import SessionError, Storage, own_key, remove_copies

#: More sessions are not listed.
MOST_SESSIONS = 1000


def main():
    request = json.load(sys.stdin)
    try:
        if request["do"] == "unlink":
            remove_copies(request["copy"])
            print(json.dumps({"size": 0, "save": ""}), flush=True)
            return 0
        place = request.get("place") or os.path.expanduser(FOLDER)
        key = bytes.fromhex(request.get("key", "")) or own_key(os.path.expanduser(KEY_FILE))
        storage = Storage(place, key)
        if request["do"] == "forget":
            answer = {"forgotten": _forget(storage, request)}
        elif request["do"] == "link":
            size, save = storage.link(request["name"], request["copy"], request["of_pod"])
            answer = {"size": size, "save": save or ""}
        else:
            answer = {"sessions": [_session(storage, n) for n in storage.list()[:MOST_SESSIONS]]}
    except SessionError as error:
        answer = {"problem": str(error)}
    except OSError as error:
        answer = {"problem": "%s: %s" % (type(error).__name__, error)}
    except ModuleNotFoundError as error:
        answer = {"problem": "The environment does not have the package %s." % error.name}
    print(json.dumps(answer), flush=True)
    return 0


def _forget(storage, request):
    """Whether there was one. A session of all hosts of a pod has its manifest on host 0."""
    name = request["name"]
    if request.get("mark"):
        return storage.mark_forgotten(name)[0]
    if request.get("of_pod"):
        if storage.has_manifest(name):
            return False  # another session: of a kernel of this host alone
        storage.remove_unused(name, set())
        return True
    return storage.forget(name)


def _session(storage, name):
    try:
        manifest, _ = storage.manifest(name)
        if manifest is None:
            return {"name": name, "problem": "It was deleted meanwhile."}
        missing = sorted(manifest["reasons"].items())
        size = sum(record["bytes"] for record in manifest["arrays"].values())
        size += sum(group["bytes"] for group in manifest["groups"])
        return {
            "name": name,
            "saved": manifest["saved"],
            "variables": sum(len(group["names"]) for group in manifest["groups"]),
            "missing": [[name, why[:LONGEST_WHY]] for name, why in missing[:MOST_NAMED]],
            "missing_count": len(missing),
            "size": manifest.get("bytes", size),
            "python": ".".join(map(str, manifest["python"])),
            "jax": manifest["jax"] or "",
            "hosts": 1 if manifest.get("shared", True) else manifest["hosts"],
            **{field: manifest["about"].get(field, "") for field in ("tpu", "zone", "type")},
            "emulated": bool(manifest["about"].get("emulated")),
        }
    except SessionError as error:
        return {"name": name, "problem": str(error)}
    except (LookupError, TypeError, AttributeError, ValueError):
        return {"name": name, "problem": "The session %s is damaged." % name}
