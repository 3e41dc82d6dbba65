"""The options of a new TPU: what is wrong with them, and what they become."""

from __future__ import annotations

import re

from msgspec import structs

from ... import catalog
from ...cloud import DataDisk, NodeOptions
from ...errors import InvalidInput
from ..models import CreateTPU

_TOPOLOGY = re.compile(r"[1-9]\d*(x[1-9]\d*){1,2}", re.ASCII)
_TAG = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_DISK = re.compile(
    r"(projects/[^/\s]+/zones/[^/\s]+/disks/)?[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII
)
_METADATA_KEY = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
_SCOPE = re.compile(r"(https://www\.googleapis\.com/auth/)?[A-Za-z0-9._-]+", re.ASCII)
_SCOPE_URL = "https://www.googleapis.com/auth/"
#: Bytes of one value of the metadata, and of all (cloud.google.com/compute/docs/metadata).
_LONGEST_VALUE, _LONGEST_METADATA = 256 * 1024, 512 * 1024
#: The metadata that is the startup script.
STARTUP_SCRIPT = "startup-script"
#: gcloud's short names for scopes that are not a scope's own.
_SCOPES = {
    "bigquery": "bigquery",
    "compute-ro": "compute.readonly",
    "compute-rw": "compute",
    "datastore": "datastore",
    "logging-write": "logging.write",
    "monitoring": "monitoring",
    "monitoring-read": "monitoring.read",
    "monitoring-write": "monitoring.write",
    "pubsub": "pubsub",
    "storage-full": "devstorage.full_control",
    "storage-ro": "devstorage.read_only",
    "storage-rw": "devstorage.read_write",
}


def check(options: NodeOptions) -> None:
    """Raises INVALID for what Google would refuse."""
    for tag in options.tags:
        if not _TAG.fullmatch(tag):
            raise InvalidInput(
                f"{tag!r} is not a network tag.",
                "Tags have lower-case letters, digits and hyphens, and start with a letter.",
                field="tags",
            )
    for disk in options.data_disks:
        if not _DISK.fullmatch(disk.source):
            raise InvalidInput(
                f"{disk.source!r} is not a disk.",
                "Give its name, or projects/PROJECT/zones/ZONE/disks/NAME.",
                field="data_disks",
            )
    for scope in options.scopes:
        if not _SCOPE.fullmatch(scope):
            raise InvalidInput(
                f"{scope!r} is not a scope.", "Scopes are such as cloud-platform or storage-ro."
            )
    account = options.service_account
    if account and account != "default" and not re.fullmatch(r"[^@\s]+@[^@\s]+", account):
        raise InvalidInput(
            f"{account!r} is not a service account.",
            "Give its email, such as NAME@PROJECT.iam.gserviceaccount.com.",
            field="service_account",
        )
    _check_metadata(options)


def _check_metadata(options: NodeOptions) -> None:
    metadata = options.metadata
    for key in metadata:
        if not _METADATA_KEY.fullmatch(key):
            raise InvalidInput(
                f"{key!r} is not a key of metadata.",
                "Keys have up to 128 letters, digits, hyphens and underscores.",
            )
    if options.startup_script and STARTUP_SCRIPT in metadata:
        raise InvalidInput(
            f"The startup script is given twice, also as the metadata {STARTUP_SCRIPT}.",
            "Give it once.",
        )
    sizes = {key: len(value.encode()) for key, value in metadata.items()}
    sizes[STARTUP_SCRIPT] = len(options.startup_script.encode()) or sizes.get(STARTUP_SCRIPT, 0)
    for key, size in sizes.items():
        if size > _LONGEST_VALUE:
            raise InvalidInput(
                f"The metadata {key} has {size / 1024:.0f} KiB; it can have 256 KiB.",
                "Let a short script download what is longer.",
            )
    if sum(sizes.values()) > _LONGEST_METADATA:
        raise InvalidInput("All metadata together have more than 512 KiB.")


def named_type(request: CreateTPU) -> CreateTPU:
    """The request with the type that its topology means; raises INVALID where there is none."""
    topology = request.options.topology
    if not topology:
        return request
    if not _TOPOLOGY.fullmatch(topology):
        raise InvalidInput(f"{topology!r} is not a topology.", "Write it like 2x4 or 2x2x4.")
    generation = request.type.partition("-")[0]
    try:
        tpu_type = catalog.type_of_topology(generation, topology)
    except catalog.UnknownType:
        raise InvalidInput(
            f"The topology {topology} of {generation} is not known.",
            "Choose a type and omit the topology.",
        ) from None
    if "-" in request.type and request.type != tpu_type.name:
        raise InvalidInput(
            f"{request.type} does not have the topology {topology}, which is {tpu_type.name}.",
            "Choose one of them.",
        )
    return structs.replace(request, type=tpu_type.name)


def resolved(options: NodeOptions, *, project: str, zone: str) -> NodeOptions:
    """The options by Google's full names."""
    return structs.replace(
        options,
        scopes=[_full_scope(scope) for scope in options.scopes],
        data_disks=[
            disk
            if "/" in disk.source
            else DataDisk(
                source=f"projects/{project}/zones/{zone}/disks/{disk.source}", mode=disk.mode
            )
            for disk in options.data_disks
        ],
    )


def _full_scope(scope: str) -> str:
    return scope if scope.startswith(_SCOPE_URL) else _SCOPE_URL + _SCOPES.get(scope, scope)


def metadata(options: NodeOptions, keys: dict[str, str]) -> dict[str, str]:
    """The metadata of the node: what is asked for, with our *keys* next to those of the user."""
    items = dict(options.metadata)
    if options.startup_script:
        items[STARTUP_SCRIPT] = options.startup_script
    for key, ours in keys.items():
        items[key] = "\n".join(filter(None, (items.get(key, "").rstrip("\n"), ours)))
    return items
