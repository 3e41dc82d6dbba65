"""Files that the user names on a command line."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

from .. import text_files
from ..errors import InvalidInput


def read_text(path: str) -> str:
    """The text of a file; raises INVALID where it can't be read."""
    return _read(path, lambda path: text_files.read_text(Path(path).expanduser()))


def read_requirements_file(path: str) -> str:
    """A requirements file with those that it includes; raises INVALID where it can't be read."""
    from ..environment.requirement_lines import read_requirements

    return _read(path, read_requirements)


def read_dependencies(path: str) -> list[str]:
    """``project.dependencies`` of a pyproject.toml, or of the one in a folder."""
    file = Path(path).expanduser()
    text = read_text(str(file / "pyproject.toml" if file.is_dir() else file))
    try:
        dependencies = tomllib.loads(text).get("project", {}).get("dependencies", [])
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}.") from None
    if not isinstance(dependencies, list) or not all(
        isinstance(item, str) for item in dependencies
    ):
        raise InvalidInput(f"The project.dependencies in {path} are not a list of packages.")
    from ..environment.requirement_lines import is_local

    for dependency in dependencies:
        if is_local(dependency):
            raise InvalidInput(
                f"In {path}, {dependency} is a file or folder of this computer.",
                "Hosts install packages from the network: write NAME, or NAME @ https://ADDRESS.",
            )
    return dependencies


def _read(path: str, read: Callable[[str], str]) -> str:
    try:
        return read(path)
    except OSError as error:
        raise InvalidInput(f"Can't read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not a text file.") from None
