"""What a new TPU is, by gcloud's names: options that `create`, `queued create` and `hunt` share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from .connection import read_text
from .grammar import complete_type, complete_version, complete_zone, parameters, project_option

if TYPE_CHECKING:
    from ..cloud import DataDisk

#: The one type, as `accelerator_type`, and the one zone.
type_and_zone_options = parameters(
    click.option(
        "--type",
        "--accelerator-type",
        "accelerator_type",
        required=True,
        metavar="TYPE",
        shell_complete=complete_type,
        help="Accelerator type, such as v5litepod-8.",
    ),
    click.option(
        "--zone",
        metavar="ZONE",
        shell_complete=complete_zone,
        help="Its zone.  [default: gcloud's]",
    ),
    project_option,
)

network_options = parameters(
    click.option("--network", metavar="NETWORK", help="VPC network.  [default: the project's]"),
    click.option("--subnetwork", metavar="SUBNETWORK", help="Subnetwork of the VPC network."),
)


def version_option(*aliases: str) -> Callable[[Any], Any]:
    return click.option(
        "--version",
        *aliases,
        "version",
        metavar="VERSION",
        shell_complete=complete_version,
        help="Runtime version (OS image).  [default: depends on the type]",
    )


_options = parameters(
    click.option(
        "--topology",
        metavar="TOPOLOGY",
        help="Shape of the slice, such as 2x2x4; --type may then be v4, v5litepod, v5p or v6e.",
    ),
    click.option(
        "--internal-ips",
        is_flag=True,
        help="No external addresses. Connecting then uses IAP, or a machine in the same network.",
    ),
    click.option(
        "--service-account",
        metavar="EMAIL",
        help="The account with which programs on the hosts call Google.  [default: the project's]",
    ),
    click.option(
        "--scopes",
        multiple=True,
        metavar="SCOPE,…",
        help="What that account may do, such as storage-ro.  [default: cloud-platform]",
    ),
    click.option(
        "--data-disk",
        "data_disks",
        multiple=True,
        metavar="source=DISK[,mode=read-only]",
        help="A persistent disk to attach. Repeatable.",
    ),
    click.option(
        "--tags", multiple=True, metavar="TAG,…", help="Network tags, for firewall rules."
    ),
    click.option("--labels", multiple=True, metavar="KEY=VALUE,…", help="Labels."),
    click.option(
        "--metadata",
        multiple=True,
        metavar="KEY=VALUE,…",
        help="Metadata of the hosts. Not for secrets: other users of this computer see commands.",
    ),
    click.option(
        "--metadata-from-file",
        multiple=True,
        metavar="KEY=FILE,…",
        help="Metadata whose values are in text files.",
    ),
    click.option(
        "--startup-script",
        metavar="FILE",
        help="A script that each host runs as root at each start.",
    ),
    click.option("--description", metavar="TEXT", help="A description, for people."),
    click.option("--shielded-secure-boot", is_flag=True, help="Boot with Secure Boot."),
)


def node_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options, which *function* gets as `options` (NodeOptions) and `labels`."""

    @wraps(function)
    def with_options(
        *args: Any,
        topology: str | None,
        internal_ips: bool,
        service_account: str | None,
        scopes: tuple[str, ...],
        data_disks: tuple[str, ...],
        tags: tuple[str, ...],
        labels: tuple[str, ...],
        metadata: tuple[str, ...],
        metadata_from_file: tuple[str, ...],
        startup_script: str | None,
        description: str | None,
        shielded_secure_boot: bool,
        **others: Any,
    ) -> Any:
        from ..cloud import NodeOptions

        files = pairs(metadata_from_file, "--metadata-from-file")
        options = NodeOptions(
            topology=topology or "",
            description=description or "",
            internal_ips=internal_ips,
            service_account=service_account or "",
            scopes=_words(scopes),
            data_disks=[_disk(each) for each in data_disks],
            tags=_words(tags),
            metadata={
                **pairs(metadata, "--metadata"),
                **{key: read_text(path) for key, path in files.items()},
            },
            startup_script=read_text(startup_script) if startup_script else "",
            secure_boot=shielded_secure_boot,
        )
        return function(*args, options=options, labels=pairs(labels, "--labels"), **others)

    return _options(with_options)


def _words(values: Iterable[str]) -> list[str]:
    return [word for value in values for word in value.split(",") if word]


def pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE, with commas between several; raises INVALID that names the *option*."""
    found = {}
    for word in _words(values):
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise InvalidInput(f"{option} {word!r} is not KEY=VALUE.")
        found[key] = value
    return found


def _disk(text: str) -> DataDisk:
    from ..cloud import DataDisk

    fields = pairs([text], "--data-disk") if "=" in text else {"source": text}
    mode = fields.pop("mode", "read-write")
    source = fields.pop("source", "")
    if fields or not source or mode not in ("read-write", "read-only"):
        raise InvalidInput(
            f"--data-disk {text!r} is not source=DISK,mode=MODE.",
            "The mode is read-write or read-only.",
        )
    return DataDisk(source=source, mode="read-only" if mode == "read-only" else "read-write")
