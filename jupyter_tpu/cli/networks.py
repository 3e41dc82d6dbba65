"""``jupyter tpu network``: a VPC network in which TPUs can be reached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ..commands.grammar import (
    Group,
    argument,
    complete_zone,
    examples,
    parameters,
    project_option,
)
from ..commands.networks import setup_text
from ..commands.session import Session, open_session
from .console import confirm, json_option, print_json, yes_option

if TYPE_CHECKING:
    from ..fleet.models import NetworkSetup


@click.group("network", cls=Group)
def network() -> None:
    """Check and set up the VPC network of TPUs: who may reach them."""


#: What a network should have.
_wanted = parameters(
    argument(
        "network",
        metavar="[NETWORK]",
        default="default",
        help="Its name.  [default: default]",
    ),
    click.option(
        "--zone",
        metavar="ZONE",
        shell_complete=complete_zone,
        help="The zone of the TPUs. Their subnetwork is in its region.  [default: gcloud's]",
    ),
    click.option(
        "--subnetwork",
        "--subnet",
        metavar="SUBNETWORK",
        help="Its name.  [default: the network's own in the region]",
    ),
    click.option(
        "--source",
        "--source-ranges",
        "sources",
        multiple=True,
        metavar="ADDRESS",
        help="Who may use SSH: an IPv4 address or range. Repeatable.  [default: this computer, "
        "if a TPU is connected]",
    ),
    click.option(
        "--anywhere",
        is_flag=True,
        help="Anyone on the internet may try to log in (0.0.0.0/0).",
    ),
    click.option("--mosh", is_flag=True, help="They may also use mosh (UDP 60000-61000)."),
    click.option(
        "--iap",
        is_flag=True,
        help="SSH through Identity-Aware Proxy, for TPUs without external addresses. Other "
        "addresses may use SSH only with --source.",
    ),
    project_option,
    json_option,
)


@network.command(
    "check",
    epilog=examples(
        "jupyter tpu network check --source 203.0.113.4",
        "jupyter tpu network check my-network --iap",
    ),
)
@_wanted
def check(as_json: bool, **wanted: Any) -> None:
    """Check whether TPUs in a network can be reached. Changes nothing.

    The exit code is 1 if something is missing.
    """
    with open_session() as session:
        found = _call(session, wanted, dry_run=True)
    _print(found, as_json=as_json)
    if found.changes or found.blocked:
        raise click.exceptions.Exit(1)


@network.command(
    "setup",
    epilog=examples(
        "jupyter tpu network setup --source 203.0.113.4             let an address in",
        "jupyter tpu network setup --source 203.0.113.5 --replace   after it changed",
        "jupyter tpu network setup my-network --zone us-west4-a --source 203.0.113.4 --mosh",
    ),
)
@_wanted
@click.option(
    "--range",
    metavar="RANGE",
    help="Internal addresses of a new subnetwork, such as 10.0.0.0/20.  [default: a free range]",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Remove earlier addresses from the rules that this command created.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@yes_option("Do not ask.")
def setup(dry_run: bool, yes: bool, as_json: bool, **wanted: Any) -> None:
    """Create what is missing: the network, a subnetwork, and narrow firewall rules.

    Shows what it will do, and asks. Only the addresses that you name may use SSH.
    Networks and firewall rules cost nothing. Needs the roles Compute Network Admin and Compute
    Security Admin.
    """
    with open_session() as session:
        found = _call(session, wanted, dry_run=True)
        if not dry_run and found.changes:
            if not yes:
                print(setup_text(found), file=sys.stderr if as_json else sys.stdout, flush=True)
                confirm("Do this?", "Add --yes to do it without asking.")
            # The address that was shown, even if this computer has another one by now. With
            # `iap` alone there is none.
            wanted["sources"] = found.sources
            found = _call(session, wanted, dry_run=False)
    _print(found, as_json=as_json)
    if found.blocked:
        raise click.exceptions.Exit(1)


def _call(session: Session, wanted: dict[str, Any], *, dry_run: bool) -> NetworkSetup:
    from ..fleet.models import SetUpNetwork

    sources = [*wanted["sources"]]
    request = SetUpNetwork(**{**wanted, "sources": sources}, dry_run=dry_run)
    return session.call(session.fleet.networks.set_up(request))


def _print(found: NetworkSetup, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print(setup_text(found))
