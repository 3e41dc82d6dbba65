"""The options that say what an environment has: of `connect` in a terminal and in a notebook, and
of `create --connect` and `env create`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import text_files
from ..errors import InvalidInput
from .grammar import parameters

if TYPE_CHECKING:
    from ..fleet.models import ConnectTPU

#: --python, --packages, --requirements …: what `connection` takes.
content_options = parameters(
    click.option(
        "--python",
        metavar="VERSION",
        help="Python version, such as 3.12.  [default: the newest on the host that JAX supports]",
    ),
    click.option(
        "--packages",
        multiple=True,
        metavar="PACKAGE...",
        help="Packages to install in addition to JAX, NumPy, matplotlib, tqdm and jaxkit.",
    ),
    click.option(
        "--requirements", metavar="FILE", help="A requirements file of packages to install."
    ),
    click.option(
        "--pyproject",
        metavar="FILE",
        help="A pyproject.toml, whose dependencies are installed.",
    ),
    click.option(
        "--lock",
        metavar="FILE",
        help="Exact versions to install, from `env lock`, `uv export` or `pip freeze`.",
    ),
    click.option("--apt", multiple=True, metavar="PACKAGE...", help="apt packages for the hosts."),
    click.option(
        "--timezone", metavar="ZONE", help="Time zone of the hosts, such as Europe/Berlin."
    ),
    click.option(
        "--setup-script",
        metavar="FILE",
        help="A script to run once on each host, as the login user, who can use sudo.",
    ),
    click.option(
        "--oh-my-zsh", is_flag=True, help="Make zsh with oh-my-zsh the login shell of the hosts."
    ),
    click.option(
        "--replace-setup",
        is_flag=True,
        help="Forget the apt packages, time zone, setup script and oh-my-zsh of earlier commands. "
        "What the hosts have stays.",
    ),
    click.option(
        "--then-run",
        metavar="CMD",
        help="A shell command to start as a job on all hosts when the environment is ready "
        "(see `job`).",
    ),
)


def connection(
    environment: str,
    *,
    python: str | None,
    packages: tuple[str, ...],
    requirements: str | None,
    pyproject: str | None,
    lock: str | None,
    apt: tuple[str, ...],
    timezone: str | None,
    setup_script: str | None,
    oh_my_zsh: bool,
    replace_setup: bool,
    then_run: str | None,
) -> ConnectTPU:
    """The request. Raises INVALID for a file that can't be read."""
    from ..environment.requirement_lines import read_requirements
    from ..fleet.models import ConnectTPU, HostSetup

    script = read_text(setup_script) if setup_script else ""
    if setup_script and not script.strip():
        raise InvalidInput(f"{setup_script} is empty.")

    return ConnectTPU(
        environment=environment,
        python=python,
        packages=[*(_dependencies(pyproject) if pyproject else []), *packages],
        requirements=read_file(requirements, read_requirements) if requirements else None,
        lock=read_file(lock, read_requirements) if lock else None,
        setup=HostSetup(apt=list(apt), timezone=timezone or "", script=script, oh_my_zsh=oh_my_zsh),
        replace_setup=replace_setup,
        then_run=then_run or "",
    )


def _dependencies(path: str) -> list[str]:
    """``project.dependencies`` of a pyproject.toml, or of the one in a folder."""
    file = Path(path).expanduser()
    text = read_text(str(file / "pyproject.toml" if file.is_dir() else file))
    try:
        found = tomllib.loads(text).get("project", {}).get("dependencies", [])
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}.") from None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidInput(f"The project.dependencies in {path} are not a list of packages.")
    from ..environment.requirement_lines import is_local

    for each in found:
        if is_local(each):
            raise InvalidInput(
                f"In {path}, {each} is a file or folder of this computer.",
                "Hosts install packages from the network: write NAME, or NAME @ https://ADDRESS.",
            )
    return found


def read_text(path: str) -> str:
    """The text of a file that the user names; raises INVALID where it can't be read."""
    return read_file(path, lambda path: text_files.read_text(Path(path).expanduser()))


def read_file(path: str, read: Callable[[str], str]) -> str:
    """What *read* makes of a file that the user names; raises INVALID where it can't be read."""
    try:
        return read(path)
    except OSError as error:
        raise InvalidInput(f"Can't read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file.") from None
