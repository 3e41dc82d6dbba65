"""``jupyter tpu env``: the environments of a TPU and their packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InvalidInput, Reason, TPUError
from ..local_files import write_atomically
from ..terminal.environment_options import Content, content_options
from ..terminal.grammar import Group, argument, examples
from ..terminal.parameters import environment_option, tpu_argument
from ..terminal.printing import (
    json_option,
    list_options,
    note,
    print_json,
    print_list,
    print_result,
)
from ..terminal.questions import confirm, yes_option
from ..terminal.session import fleet_call, open_session
from ..terminal.streams import verbatim
from ..terminal.tables import problem_text, table
from ..terminal.waiting import finish, no_wait_option, progress_stream, verbose_option

if TYPE_CHECKING:
    from ..fleet.models import Environment, FoundPythons, InstalledPackage, Problem

_packages_argument = argument(
    "packages", nargs=-1, required=True, metavar="PACKAGE...", help="Such as einops or numpy==2.1."
)
_environment_argument = argument(
    "environment",
    required=False,
    default="default",
    metavar="[ENV]",
    help="Name of the environment (default: default).",
)


@click.group("env", cls=Group)
def env() -> None:
    """Manage the Python environments of a TPU, and their packages."""


@env.command(
    "list", epilog=examples("jupyter tpu env list my-tpu", "jupyter tpu env list my-tpu --found")
)
@tpu_argument()
@click.option(
    "--found", is_flag=True, help="List the Python environments found on the hosts instead."
)
@list_options
def list_environments(name: str, found: bool) -> None:
    """List the environments of a TPU."""
    if found:
        _list_found(name)
        return
    environments = fleet_call(lambda fleet: fleet.environments.list(name))
    print_list(environments, lambda chosen: _table(name, chosen))


def _table(name: str, environments: Sequence[Environment]) -> str:
    if not environments:
        return f"{name} has no environment. Create one: jupyter tpu connect {name}"
    rows = [
        (
            environment.name,
            {"making": "being created"}.get(environment.state, environment.state),
            environment.python,
            environment.framework_version,
            ", ".join(environment.packages) or "-",
        )
        for environment in environments
    ]
    lines = [table(("ENVIRONMENT", "STATE", "PYTHON", "FRAMEWORK", "PACKAGES"), rows)]
    lines += [
        f"{environment.name}: {problem_text(environment.problem)}"
        for environment in environments
        if environment.problem
    ]
    return "\n".join(lines)


@env.command(
    "create",
    epilog=examples(
        "jupyter tpu env create my-tpu experiments --python 3.12 --packages flax",
        "jupyter tpu env create my-tpu experiments --lock experiments.txt",
    ),
)
@tpu_argument()
@argument("environment", metavar="ENV", help="Name of the environment.")
@content_options()
@verbose_option
@no_wait_option
@json_option
def create_environment(
    name: str, environment: str, no_wait: bool, as_json: bool, content: Content
) -> None:
    """Create an environment on all hosts of a TPU, and its kernel.

    Without options, an environment of a name that another TPU had gets the same versions as there.
    """
    from .connect import connect_with

    connect_with(name, content.request(environment), no_wait=no_wait, as_json=as_json)


@env.command(
    "lock",
    epilog=examples(
        "jupyter tpu env lock my-tpu", "jupyter tpu env lock my-tpu experiments --output lock.txt"
    ),
)
@tpu_argument()
@_environment_argument
@click.option("--output", metavar="FILE", help="Write it to this file, instead of the terminal.")
@json_option
def lock_environment(name: str, environment: str, output: str | None, as_json: bool) -> None:
    """Print the exact versions of an environment, as a requirements file."""
    from ..environment.locks import heading

    lock = fleet_call(lambda fleet: fleet.environments.get_lock(name, environment))
    _warn(lock.problem)
    if as_json:
        print_json(lock)
        return
    of = f"{lock.environment} on {lock.tpu} ({lock.type})"
    text = (
        f"{heading(of, lock.python, lock.time)}"
        f"# Use it: jupyter tpu env create NAME {lock.environment} --lock FILE\n{lock.text}"
    )
    if output is None:
        print(verbatim(text), end="")
        return
    try:
        # Addresses of packages may have a password.
        write_atomically(Path(output).expanduser(), text, mode=0o600)
    except OSError as error:
        raise InvalidInput(f"Can't write {output}: {error.strerror}.") from None
    print(f"Wrote {len(lock.text.splitlines())} packages to {output}.")


@env.command("sync", epilog=examples("jupyter tpu env sync my-tpu"))
@tpu_argument()
@_environment_argument
def sync_environment(name: str, environment: str) -> None:
    """Give all hosts exactly the packages that host 0 has.

    `jupyter tpu doctor` says which hosts differ.
    """
    with open_session() as session:
        operation = session.call(session.fleet.environments.sync_packages(name, environment))
        finish(session, operation, sys.stdout)
    print(f"All hosts of {name} have the same packages in {environment}.")


def _list_found(name: str) -> None:
    answer = fleet_call(lambda fleet: fleet.pythons.list(name))
    print_list(answer, lambda chosen: _found_text(name, chosen), "pythons")
    for problem in answer.problems:
        note(problem)


def _found_text(name: str, answer: FoundPythons) -> str:
    rows = [
        (
            python.path,
            python.version,
            python.jax or "-",
            python.ipykernel or "-",
            python.environment or "-",
        )
        for python in answer.pythons
    ]
    lines = [table(("PATH", "PYTHON", "JAX", "IPYKERNEL", "ENVIRONMENT"), rows)]
    remarks: dict[str, list[str]] = {}
    for found_python in answer.pythons:
        hosts = ", ".join(map(str, found_python.different))
        remark = found_python.problem or (f"Other versions on host {hosts}." if hosts else "")
        if remark:
            remarks.setdefault(remark, []).append(found_python.path)
    lines += [f"{remark} ({', '.join(paths)})" for remark, paths in remarks.items()]
    return "\n".join([*lines, f"To use one: jupyter tpu env use {name} PATH"])


@env.command(
    "use",
    epilog=examples(
        "jupyter tpu env use my-tpu ~/venv", "jupyter tpu env use my-tpu /opt/conda --env conda"
    ),
)
@tpu_argument()
@argument("path", metavar="PATH", help="A Python or virtual environment on the hosts.")
@click.option(
    "--env",
    "environment",
    metavar="ENV",
    help="Name of the environment.  [default: the name of its folder]",
)
@click.option("--install-ipykernel", is_flag=True, help="Install ipykernel there if it is missing.")
@json_option
def use_python(
    name: str, path: str, environment: str | None, install_ipykernel: bool, as_json: bool
) -> None:
    """Use a Python that is on the hosts as an environment.

    Nothing in it is changed or deleted. Only ipykernel is installed, if you agree.
    """
    from ..fleet.models import ConnectTPU

    with open_session() as session:
        found_pythons = session.call(session.fleet.pythons.list(name, path))
        if not found_pythons.asked:
            raise TPUError(
                f"{name} has no Python at {path}.",
                Reason.NOT_FOUND,
                f"`jupyter tpu env list {name} --found` shows those that it has.",
            )
        python = next(
            (python for python in found_pythons.pythons if python.path == found_pythons.asked), None
        )
        missing_ipykernel = python is not None and not (python.ipykernel or python.problem)
        if missing_ipykernel and not install_ipykernel:
            confirm(
                f"Install ipykernel into {path} on {name}? Its other packages stay as they are.",
                "Add --install-ipykernel to install it without asking.",
            )
        request = ConnectTPU(
            environment=environment or (python.name if python else "found"),
            python_path=found_pythons.asked,
            install_ipykernel=missing_ipykernel,
        )
        operation = session.call(session.fleet.connect(name, request))
        finish(session, operation, progress_stream(as_json))
        tpu = session.call(session.fleet.tpu(name))
    used = next(
        environment for environment in tpu.environments if environment.name == request.environment
    )
    print_result(used, f'The kernel "{used.display_name}" is in every kernel picker.', as_json)


@env.command("packages", epilog=examples("jupyter tpu env packages my-tpu"))
@tpu_argument()
@environment_option
@list_options
def list_packages(name: str, environment: str) -> None:
    """List what is installed in an environment."""
    installed_packages = fleet_call(
        lambda fleet: fleet.environments.list_packages(name, environment)
    )
    print_list(installed_packages, _package_table)


def _package_table(packages: Sequence[InstalledPackage]) -> str:
    rows = [
        (package.name, package.version, "yes" if package.requested else "") for package in packages
    ]
    return table(("PACKAGE", "VERSION", "ADDED"), rows)


@env.command("add", epilog=examples("jupyter tpu env add my-tpu einops 'optax>=0.2'"))
@tpu_argument()
@_packages_argument
@environment_option
@verbose_option
def add_packages(name: str, packages: tuple[str, ...], environment: str) -> None:
    """Add packages to an environment, on all hosts."""
    problem = _change(name, environment, add=packages)
    print(f"Added {', '.join(packages)} to {environment} on {name}.")
    _warn(problem)


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
) -> Problem | None:
    from ..fleet.models import ChangePackages

    request = ChangePackages(add=list(add), remove=list(remove))
    with open_session() as session:
        operation = session.call(
            session.fleet.environments.change_packages(name, environment, request)
        )
        finish(session, operation, sys.stdout)
        environments = session.call(session.fleet.environments.list(name))
    return next((entry.problem for entry in environments if entry.name == environment), None)


def _warn(problem: Problem | None) -> None:
    if problem is not None:
        note(f"Warning: {problem_text(problem)}")


@env.command("delete", epilog=examples("jupyter tpu env delete my-tpu experiments"))
@tpu_argument()
@argument("environment", metavar="ENV", help="Name of the environment.")
@yes_option("Delete it, and shut down its kernels, without asking.")
def delete_environment(name: str, environment: str, yes: bool) -> None:
    """Delete an environment from the hosts of a TPU.

    An environment that was on the hosts before (see `use`) is only removed from Jupyter.
    """
    from ..fleet.models import RemoveEnvironment

    with open_session() as session:
        environments = session.call(session.fleet.environments.list(name))
        named = [entry for entry in environments if entry.name == environment]
        is_existing = any(entry.python_path for entry in named)
        if named and not yes:  # one that is not there is refused below
            question = (
                f"Remove the environment {environment} from Jupyter, and shut down its kernels? "
                f"Its files on {name} are kept."
                if is_existing
                else f"Delete the environment {environment} on {name}, and shut down its kernels?"
            )
            confirm(question, "Add --yes to delete it without asking.")
        options = RemoveEnvironment(end_kernels=True)
        operation = session.call(session.fleet.environments.remove(name, environment, options))
        finish(session, operation, sys.stdout)
    if is_existing:
        print(f"Removed {environment} from Jupyter. Its files on {name} are kept.")
    else:
        print(f"Deleted the environment {environment} on {name}.")
