"""Cloud Storage over REST: its JSON API, as far as its clients for Python, gcsfs, TensorStore and
gcloud use it.

The owner's token is for the buckets of all projects, a host's for those of the host's project. A
client that is told of an emulator by ``STORAGE_EMULATOR_HOST`` shows no token, so the same API is
also in the secret folder that is a host's metadata server.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from aiohttp import web

from ...engine import Engine
from ...model import api_errors
from ...model.records import NodeRecord
from ...storage import Buckets, errors
from ...storage.records import BucketRecord
from ..batch import batch
from ..host_identity import METADATA, HostIdentities, account_of
from ..os_login import ACCOUNT
from .bodies import Line
from .buckets import BucketCalls
from .call import Call
from .objects import ObjectCalls
from .uploads import UploadCalls

#: (method, path, Google's name of the call, the permission that it needs), below ``storage/v1``.
_CALLS = (
    ("GET", "b", "buckets.list", "buckets.list"),
    ("POST", "b", "buckets.insert", "buckets.create"),
    ("GET", "b/{bucket}", "buckets.get", "buckets.get"),
    ("PATCH", "b/{bucket}", "buckets.patch", "buckets.update"),
    ("PUT", "b/{bucket}", "buckets.update", "buckets.update"),
    ("DELETE", "b/{bucket}", "buckets.delete", "buckets.delete"),
    ("GET", "b/{bucket}/storageLayout", "buckets.getStorageLayout", "objects.list"),
    ("GET", "b/{bucket}/managedFolders", "managedFolders.list", "managedFolders.list"),
    ("GET", "b/{bucket}/iam/testPermissions", "buckets.testIamPermissions", ""),
    ("GET", "b/{bucket}/o", "objects.list", "objects.list"),
    ("GET", "b/{bucket}/o/{object}", "objects.get", "objects.get"),
    ("PATCH", "b/{bucket}/o/{object}", "objects.patch", "objects.update"),
    ("PUT", "b/{bucket}/o/{object}", "objects.update", "objects.update"),
    ("DELETE", "b/{bucket}/o/{object}", "objects.delete", "objects.delete"),
    ("POST", "b/{bucket}/o/{object}/compose", "objects.compose", "objects.create"),
    *(
        ("POST", f"b/{{bucket}}/o/{{object}}/{verb}To/b/{{to}}/o/{{name}}", name, "objects.create")
        for verb, name in (("copy", "objects.copy"), ("rewrite", "objects.rewrite"))
    ),
    ("POST", "b/{bucket}/o/{object}/moveTo/o/{name}", "objects.move", "objects.create"),
)
#: The same, below ``upload/storage/v1``; and ``download/storage/v1``.
_UPLOAD = tuple(
    (method, "b/{bucket}/o", "objects.insert", "objects.create")
    for method in ("POST", "PUT", "DELETE")
)
_DOWNLOAD = (("GET", "b/{bucket}/o/{object}", "objects.get", "objects.get"),)
#: What faults may name.
STORAGE_METHODS = frozenset(call[2] for call in (*_CALLS, *_UPLOAD))
_CHANGES = (".create", ".update", ".delete")
_SCOPES = "https://www.googleapis.com/auth/"
#: A host's scopes with one of which it may do all, and those with which it may read.
_MAY_WRITE = {f"{_SCOPES}{scope}" for scope in ("cloud-platform", "devstorage.full_control")} | {
    f"{_SCOPES}devstorage.read_write"
}
_MAY_READ = _MAY_WRITE | {f"{_SCOPES}devstorage.read_only"}
#: Parameters that would change what a call does, and that the emulator does not have.
_UNSUPPORTED = ("matchGlob", "softDeleted", "kmsKeyName", "destinationKmsKeyName", "filter")


def add_routes(
    app: web.Application, engine: Engine, identities: HostIdentities, buckets: Buckets
) -> None:
    """``/storage/v1/``, ``/upload/storage/v1/`` and ``/download/storage/v1/``, and the same in the
    folders of hosts.
    """
    faults = engine.model.faults
    handlers = (BucketCalls(buckets), ObjectCalls(buckets), UploadCalls(buckets))
    table = {name: call for handler in handlers for name, call in handler.table.items()}

    async def answer(request: web.Request) -> web.StreamResponse:
        folder = request.match_info.get("folder", "")
        prefix = f"{METADATA}{folder}" if folder else ""
        node = identities.caller(request, engine)
        caller = account_of(node) if node is not None else ACCOUNT
        kind, _, rest = (
            request.raw_path.partition("?")[0].removeprefix(prefix).partition("storage/v1/")
        )
        calls = _UPLOAD if "upload" in kind else _DOWNLOAD if "download" in kind else _CALLS
        name, permission, path = _route(calls, request.method, rest)
        bucket = buckets.get(path.pop("bucket")) if "bucket" in path else None
        location = bucket.location.lower() if bucket is not None else ""
        targets = [bucket] if bucket is not None else []
        if "to" in path:
            targets.append(buckets.get(path["to"]))
        if node is not None:
            _check_access(node, permission, targets)
        for unsupported in _UNSUPPORTED:
            if request.query.get(unsupported, "false").lower() != "false":
                raise errors.unsupported(f"the parameter {unsupported}")
        if "x-goog-encryption-algorithm" in request.headers:
            raise errors.unsupported("encryption with a caller's keys")
        if silent := faults.consume("silent", location, name):
            await faults.wait_silence(silent)
        if failing := faults.consume("error", location, name):
            raise failing.error()
        if permission.endswith(_CHANGES) and faults.consume("permission", location):
            raise errors.forbidden(caller, f"storage.{permission}")
        call = Call(
            request=request,
            name=name,
            path=path,
            node=node,
            base=f"{request.scheme}://{request.host}{prefix}",
            target=bucket,
            line=Line(request, faults, location, name),
            download="download" in kind,
        )
        try:
            response = await table[name](call)
        except ConnectionError:  # in the middle of a body: nobody is there to read an answer
            return web.Response(status=499, reason="Client Closed Request")
        if lost := faults.consume("lost-answer", location, name):
            raise lost.error()
        return response

    for place in ("", f"{METADATA}{{folder}}"):
        app.router.add_post(f"{place}/batch/storage/v1", batch("/storage/", 100))
        for kind in ("storage", "upload/storage", "resumable/upload/storage", "download/storage"):
            app.router.add_route("*", f"{place}/{kind}/v1/{{call:.*}}", answer)


def _route(
    calls: Sequence[tuple[str, str, str, str]], method: str, path: str
) -> tuple[str, str, dict[str, str]]:
    """The call, its permission, and what the path has. Raises ApiError if there is none."""
    parts = path.split("/")
    for call_method, pattern, name, permission in calls:
        names = pattern.split("/")
        if call_method != method or len(names) != len(parts):
            continue
        try:
            values = {
                known[1:-1]: unquote(part, errors="strict")
                for known, part in zip(names, parts, strict=True)
                if known.startswith("{")
            }
        except UnicodeDecodeError:
            raise errors.invalid("Object names must be valid UTF-8.") from None
        literals = zip(names, parts, strict=True)
        if all(known == part or known.startswith("{") for known, part in literals):
            return name, permission, values
    raise api_errors.not_found(f"{method} {path}")


def _check_access(node: NodeRecord, permission: str, buckets: list[BucketRecord]) -> None:
    """Raises ApiError if a host of *node* may not do this with the buckets."""
    scopes = _MAY_WRITE if permission.endswith(_CHANGES) else _MAY_READ
    if not scopes & set(node.scopes or _MAY_WRITE):
        raise errors.wrong_scopes()
    if any(bucket.project != node.project for bucket in buckets):
        raise errors.forbidden(account_of(node), f"storage.{permission}")
