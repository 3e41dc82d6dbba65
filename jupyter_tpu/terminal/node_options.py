"""What a new TPU is, by gcloud's names: options that `create`, `queued create` and `hunt` share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from .field_options import options_of, pairs, read_text
from .grammar import parameters, section
from .parameters import complete_type, complete_zone, project_option


def type_and_zone(*, required: bool = True) -> Callable[[Any], Any]:
    """The one type, as `accelerator_type`, and the one zone."""
    return parameters(
        click.option(
            "--type",
            "--accelerator-type",
            "accelerator_type",
            required=required,
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


type_and_zone_options = type_and_zone()

_options = section(
    "Machine and network",
    options_of("CreateTPU", "network", "subnetwork"),
    options_of("NodeOptions", into="options"),
    click.option(
        "--metadata-from-file",
        multiple=True,
        metavar="KEY=FILE,…",
        help="Metadata whose values are in text files.",
    ),
    options_of("CreateTPU", "labels"),
    rare=True,
)


def node_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options, which *function* gets as `options` (NodeOptions) and in `fields` (CreateTPU)."""

    @wraps(function)
    def with_options(
        *args: Any, options: dict[str, Any], metadata_from_file: tuple[str, ...], **others: Any
    ) -> Any:
        from ..fleet.models import NodeOptions

        files = pairs(metadata_from_file, "--metadata-from-file")
        texts = {key: read_text(path) for key, path in files.items()}
        options["metadata"] = {**options.get("metadata", {}), **texts}
        return function(*args, options=NodeOptions(**options), **others)

    return _options(with_options)
