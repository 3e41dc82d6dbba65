"""``jupyter tpu logs``: the output of jobs, as `job logs`; and jupyter-tpu's own log."""

from __future__ import annotations

import contextlib
import sys
from itertools import chain
from typing import Any

import click

from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import print_json, print_result
from .job import log_options
from .job import logs as job_logs


@command(
    "logs",
    epilog=examples(
        "jupyter tpu logs my-tpu --follow                the newest job of my-tpu",
        "jupyter tpu logs --of jupyter-tpu --tail 100    what jupyter-tpu has done",
    ),
)
@tpu_argument(required=False)
@log_options
@click.option(
    "--of",
    type=click.Choice(["jupyter-tpu"]),
    help="Show what jupyter-tpu itself has done instead: its links, operations, hunts, guards and "
    "kernels. With --follow, --tail, --search and --json.",
)
@click.pass_context
def logs(
    ctx: click.Context,
    name: str | None,
    of: str | None,
    follow: bool,
    tail: int | None,
    query: dict[str, Any],
    as_json: bool,
    **others: Any,
) -> None:
    """Print the output of a job, or what jupyter-tpu itself has done."""
    if of is None:
        if name is None:
            raise click.UsageError("Missing argument 'NAME'.")
        shown = {"follow": follow, "tail": tail, "query": query, "as_json": as_json, **others}
        ctx.invoke(job_logs, name=name, **shown)
        return
    if name is not None or any(others.values()) or query.keys() - {"search"}:
        raise click.UsageError("--of jupyter-tpu takes --follow, --tail, --search and --json only.")
    if tail is not None and tail < 1:
        raise click.UsageError("--tail is 1 or more.")
    _own_log(follow=follow, tail=tail or 0, search=query.get("search", ""), as_json=as_json)


def _own_log(*, follow: bool, tail: int, search: str, as_json: bool) -> None:
    from .. import own_log

    kept, coming = own_log.read()
    kept = own_log.chosen(kept, search, tail)
    if as_json and not follow:
        print_json(kept)
        return
    with contextlib.suppress(KeyboardInterrupt):
        for line in chain(kept, coming) if follow else kept:
            if own_log.chosen([line], search):
                print_result(line, str(line), as_json)
                sys.stdout.flush()
