"""``jupyter tpu env``: the environments of a TPU and their packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ..commands.grammar import Group, argument, environment_option, examples, tpu_argument
from ..commands.session import open_session
from ..commands.tables import table
from .console import confirm, json_option, print_json, yes_option
from .waiting import finish

_packages_argument = argument(
    "packages", nargs=-1, required=True, metavar="PACKAGE...", help="Such as einops or numpy==2.1."
)


@click.group("env", cls=Group)
def env() -> None:
    """Manage the Python environments of a TPU, and their packages."""


@env.command("list", epilog=examples("jupyter tpu env list my-tpu"))
@tpu_argument()
@json_option
def list_environments(name: str, as_json: bool) -> None:
    """List the environments of a TPU."""
    with open_session() as session:
        environments = session.call(session.fleet.environments(name))
    if as_json:
        print_json(environments)
        return
    if not environments:
        print(f"{name} has no environment. Create one: jupyter tpu connect {name}")
        return
    rows = [
        (
            each.name,
            {"making": "being created"}.get(each.state, each.state),
            each.python,
            each.jax,
            ", ".join(each.packages) or "-",
        )
        for each in environments
    ]
    print(table(("ENVIRONMENT", "STATE", "PYTHON", "JAX", "PACKAGES"), rows))
    for each in environments:
        if each.problem is not None:
            print(f"{each.name}: {each.problem.message} {each.problem.hint}".rstrip())


@env.command("packages", epilog=examples("jupyter tpu env packages my-tpu"))
@tpu_argument()
@environment_option
@json_option
def list_packages(name: str, environment: str, as_json: bool) -> None:
    """List what is installed in an environment."""
    with open_session() as session:
        found = session.call(session.fleet.packages(name, environment))
    if as_json:
        print_json(found)
        return
    rows = [(each.name, each.version, "yes" if each.requested else "") for each in found]
    print(table(("PACKAGE", "VERSION", "ADDED"), rows))


@env.command("add", epilog=examples("jupyter tpu env add my-tpu einops 'optax>=0.2'"))
@tpu_argument()
@_packages_argument
@environment_option
def add_packages(name: str, packages: tuple[str, ...], environment: str) -> None:
    """Add packages to an environment, on all hosts."""
    _change(name, environment, add=packages)
    print(f"Added {', '.join(packages)} to {environment} on {name}.")


@env.command("remove", epilog=examples("jupyter tpu env remove my-tpu einops"))
@tpu_argument()
@_packages_argument
@environment_option
def remove_packages(name: str, packages: tuple[str, ...], environment: str) -> None:
    """Remove packages from an environment, on all hosts."""
    _change(name, environment, remove=packages)
    print(f"Removed {', '.join(packages)} from {environment} on {name}.")


def _change(
    name: str, environment: str, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> None:
    from ..fleet.models import ChangePackages

    request = ChangePackages(add=list(add), remove=list(remove))
    with open_session() as session:
        operation = session.call(session.fleet.change_packages(name, environment, request))
        finish(session, operation, sys.stdout)


@env.command("delete", epilog=examples("jupyter tpu env delete my-tpu experiments"))
@tpu_argument()
@argument("environment", metavar="ENV", help="Name of the environment.")
@yes_option("Delete it, and shut down its kernels, without asking.")
def delete_environment(name: str, environment: str, yes: bool) -> None:
    """Delete an environment from the hosts of a TPU."""
    from ..fleet.models import RemoveEnvironment

    if not yes:
        confirm(
            f"Delete the environment {environment} on {name}, and shut down its kernels?",
            "Add --yes to delete it without asking.",
        )
    with open_session() as session:
        options = RemoveEnvironment(end_kernels=True)
        operation = session.call(session.fleet.remove_environment(name, environment, options))
        finish(session, operation, sys.stdout)
    print(f"Deleted the environment {environment} on {name}.")
