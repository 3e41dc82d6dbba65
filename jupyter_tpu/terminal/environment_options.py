"""The options that say what an environment has: of `connect` in a terminal and in a notebook, and
of `create --connect` and `env create`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput
from .field_options import options_of
from .grammar import section

if TYPE_CHECKING:
    from ..fleet.models import ConnectTPU


class Content:
    """What the options say that an environment has; false if none was given."""

    def __init__(
        self, fields: dict[str, Any], setup: dict[str, Any], pyproject: str | None
    ) -> None:
        self._fields = fields
        self._setup = setup
        self._pyproject = pyproject

    def __bool__(self) -> bool:
        given = [*self._fields.values(), *self._setup.values(), self._pyproject]
        return any(given)

    def request(self, environment: str) -> ConnectTPU:
        """Raises INVALID for a file that can't be used."""
        from ..fleet.models import ConnectTPU, HostSetup

        if not self._setup.get("script", "x").strip():
            raise InvalidInput("The setup script is empty.")
        connect_tpu = ConnectTPU(
            environment=environment, setup=HostSetup(**self._setup), **self._fields
        )
        if self._pyproject:
            self._add_project(connect_tpu, self._pyproject)
        return connect_tpu

    def _add_project(self, connect_tpu: ConnectTPU, path: str) -> None:
        from ..environment.packages import merge
        from ..environment.pythons import fits
        from .pyproject import read_project

        project = read_project(path)
        connect_tpu.packages = merge(project.packages, connect_tpu.packages)
        if project.options:
            lines = [*project.options, connect_tpu.requirements or ""]
            connect_tpu.requirements = "\n".join(filter(None, lines))
        if not connect_tpu.python:
            connect_tpu.python = project.python
        elif project.python and not fits(connect_tpu.python, project.python):
            raise InvalidInput(
                f"{path} needs Python {project.python}, so --python {connect_tpu.python} is not "
                "possible."
            )

    def needs_connect(self) -> None:
        """Raises INVALID if options were given to a command that does not connect."""
        if self:
            raise InvalidInput(
                "Options of an environment, such as --packages, need --connect.",
                "Add --connect, or give them to `jupyter tpu connect` later.",
            )


def content_options(title: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--python, --packages, --requirements …, which a command gets as `content` (Content).

    title: of their part of the help; "": they are among the other options.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def with_content(
            *args: Any,
            content: dict[str, Any],
            setup: dict[str, Any],
            pyproject: str | None,
            **others: Any,
        ) -> Any:
            return function(*args, content=Content(content, setup, pyproject), **others)

        return options(with_content)

    options = section(
        title,
        options_of("ConnectTPU", "framework", "python", "packages", "requirements", into="content"),
        click.option(
            "--pyproject",
            metavar="FILE",
            help="A pyproject.toml, whose dependencies are installed, for a Python that it allows.",
        ),
        options_of("ConnectTPU", "lock", "then_run", into="content"),
        options_of("HostSetup", "apt", "timezone", "script", "oh_my_zsh", into="setup"),
        options_of("ConnectTPU", "replace_setup", into="content"),
    )
    return decorate
