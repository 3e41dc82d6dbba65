"""``jupyter tpu network``: a VPC network in which TPUs can be reached."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples, parameters
from ..terminal.parameters import complete_zone, project_option
from ..terminal.printing import json_option, print_result
from ..terminal.questions import confirm, yes_option
from ..terminal.session import FleetSession, open_session

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
    options_of("SetUpNetwork", "subnetwork", "sources", "anywhere", "mosh", "iap"),
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
def check(network: str, zone: str | None, fields: dict[str, Any], as_json: bool) -> None:
    """Check whether TPUs in a network can be reached. Changes nothing.

    The exit code is 1 if something is missing.
    """
    with open_session() as session:
        network_setup = _check(session, network, zone, fields)
    print_result(network_setup, setup_text(network_setup), as_json)
    if network_setup.changes or network_setup.blocked:
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
@options_of("SetUpNetwork", "range", "replace", "dry_run")
@yes_option("Do not ask.")
def setup(network: str, zone: str | None, fields: dict[str, Any], yes: bool, as_json: bool) -> None:
    """Create what is missing: the network, a subnetwork, and narrow firewall rules.

    Shows what it will do, and asks. Only the addresses that you name may use SSH.
    Networks and firewall rules cost nothing. Needs the roles Compute Network Admin and Compute
    Security Admin.
    """
    from ..fleet.models import SetUpNetwork

    dry_run = fields.pop("dry_run", False)
    with open_session() as session:
        network_setup = _check(session, network, zone, fields)
        if not dry_run and network_setup.changes:
            if not yes:
                print(
                    setup_text(network_setup),
                    file=sys.stderr if as_json else sys.stdout,
                    flush=True,
                )
                confirm("Do this?", "Add --yes to do it without asking.")
            # The address that was shown, even if this computer has another one by now. With
            # `iap` alone there is none.
            fields["sources"] = network_setup.sources
            request = SetUpNetwork(network=network, zone=zone, **fields)
            network_setup = session.call(session.fleet.networks.set_up(request))
    print_result(network_setup, setup_text(network_setup), as_json)
    if network_setup.blocked:
        raise click.exceptions.Exit(1)


def _check(
    session: FleetSession, network: str, zone: str | None, fields: dict[str, Any]
) -> NetworkSetup:
    from ..fleet.models import SetUpNetwork

    request = SetUpNetwork(network=network, zone=zone, dry_run=True, **fields)
    return session.call(session.fleet.networks.set_up(request))


def setup_text(setup: NetworkSetup) -> str:
    """A line for each thing, and a last one for all."""
    marks = (
        ("ok", setup.found),
        ("WARNING", setup.warnings),
        ("to do" if setup.dry_run else "done", setup.changes),
        ("PROBLEM", setup.blocked),
    )
    lines = [f"{mark:7}  {text}" for mark, texts in marks for text in texts]
    return "\n".join([*lines, "", _summary(setup)])


def _summary(setup: NetworkSetup) -> str:
    kind = "emulated network" if setup.emulated else "network"
    network = f"The {kind} {setup.network} of the project {setup.project}"
    if setup.blocked:
        return f"{network} is not set up. A rule that jupyter-tpu did not create conflicts with it."
    if setup.changes and setup.dry_run:
        return f"{network} is not set up."
    return f"{network} is set up."
