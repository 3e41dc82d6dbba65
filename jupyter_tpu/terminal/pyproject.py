"""A pyproject.toml of this computer: what hosts install for it.

What uv would read there and hosts could not follow is refused by its name, so that never another
package of the same name is installed.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from msgspec import Struct
from packaging.markers import InvalidMarker, Marker

from ..environment.pythons import bounds
from ..environment.requirement_lines import is_local
from ..errors import InvalidInput
from ..on_host.environments.indexes import noted
from ..on_host.environments.packages import name_of, normalized
from .field_options import read_text

_EXPORT = (
    "Export what it needs with `uv export --no-emit-project --output-file requirements.txt`, and "
    "use --lock requirements.txt."
)
#: Keys of [tool.uv] that do not change which packages are installed for the project itself.
_WITHOUT_EFFECT = {
    "add-bounds", "audit", "build-backend", "cache-dir", "cache-keys", "compile-bytecode",
    "concurrent-builds", "concurrent-downloads", "concurrent-installs", "conflicts",
    "default-groups", "dependency-groups", "dev-dependencies", "environments",
    "exclude-newer-package-warning", "fork-strategy", "http-proxy", "https-proxy", "link-mode",
    "managed", "native-tls", "no-cache", "no-progress", "no-proxy", "offline", "package",
    "preview", "preview-features", "publish-url", "python-downloads", "python-preference",
    "reinstall", "reinstall-package", "required-environments", "required-version", "system-certs",
    "trusted-publishing", "upgrade", "upgrade-package", "workspace",
}  # fmt: skip
_READ = {"sources", "index", "index-url", "extra-index-url"}
#: Where other tools look for packages; they are not read here.
_OTHER_SOURCES = {("poetry", "source"), ("pdm", "source")}
_REVISIONS = ("rev", "tag", "branch")
_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}


class PyProject(Struct, frozen=True, kw_only=True):
    """What a pyproject.toml asks for."""

    packages: list[str]
    #: Lines of a requirements file: the package indexes.
    options: list[str]
    #: Bounds, such as ">=3.11,<3.13"; None: any that JAX supports.
    python: str | None


def read_project(path: str) -> PyProject:
    """Reads a pyproject.toml, or the one in a folder.

    Raises INVALID for what hosts can't follow.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        file /= "pyproject.toml"
    content = _table(str(file))
    tool = content.get("tool", {})
    project = content.get("project")
    if not isinstance(project, dict):
        if "dependencies" in tool.get("poetry", {}):
            raise InvalidInput(
                f"{file} has its dependencies in [tool.poetry.dependencies], which only Poetry "
                "reads.",
                "Export them with `poetry export --output requirements.txt`, and use --lock "
                "requirements.txt.",
            )
        raise InvalidInput(f"{file} has no [project], so it names no dependencies.")
    if "dependencies" in project.get("dynamic", []):
        raise InvalidInput(
            f"{file} does not name its dependencies: they are dynamic, so its build finds them.",
            _EXPORT,
        )
    dependencies = project.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(
        isinstance(item, str) for item in dependencies
    ):
        raise InvalidInput(f"The project.dependencies in {path} are not a list of packages.")
    for name, key in _OTHER_SOURCES:
        if tool.get(name, {}).get(key):
            raise InvalidInput(f"{file} has a [[tool.{name}.{key}]], which only {name} reads.")
    configured = file.with_name("uv.toml")  # uv reads that instead
    uv = tool.get("uv", {})
    settings = _table(str(configured)) if configured.exists() else uv
    for key in settings:
        if key not in _READ | _WITHOUT_EFFECT:
            raise InvalidInput(f"{file} sets {key} for uv, which hosts do not follow.", _EXPORT)
    indexes = {index.get("name", ""): index for index in settings.get("index", [])}
    sources = {normalized(name): of for name, of in uv.get("sources", {}).items()}
    options = [f"--index-url {settings['index-url']}"] if "index-url" in settings else []
    options += [f"--extra-index-url {url}" for url in settings.get("extra-index-url", [])]
    for index in settings.get("index", []):
        url, form = str(index.get("url", "")), index.get("format", "simple")
        if form != "simple" or not re.match(r"https?://", url):
            raise InvalidInput(f"{file} has a package index that hosts can't use: {url}.", _EXPORT)
        if not index.get("explicit"):
            option = "--index-url" if index.get("default") else "--extra-index-url"
            options.append(f"{option} {url}")
    packages = [_from_source(str(file), each, sources, indexes) for each in dependencies]
    return PyProject(
        packages=packages, options=options, python=bounds(project.get("requires-python", ""))
    )


def _table(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not a TOML file: {error}.") from None


def _from_source(
    path: str, dependency: str, sources: dict[str, Any], indexes: dict[str, dict[str, Any]]
) -> str:
    """A dependency with the source that [tool.uv.sources] has for it."""
    if is_local(dependency):
        raise InvalidInput(
            f"In {path}, {dependency} is a file or folder of this computer.",
            "Hosts install packages from the network: write NAME, or NAME @ https://ADDRESS.",
        )
    of = sources.get(name_of(dependency), [])
    chosen = [each for each in (of if isinstance(of, list) else [of]) if _is_for_hosts(path, each)]
    if not chosen:
        return dependency
    requirement, semicolon, marker = dependency.partition(";")
    marker = f" ;{marker}" if semicolon else ""
    name = re.split(r"[<>=!~@\s]", requirement.strip(), maxsplit=1)[0]
    match chosen:
        case [{"index": key}] if "url" in indexes.get(key, {}):
            return noted(dependency.strip(), indexes[key]["url"])
        case [{"git": url, **at}] if at.keys() <= {*_REVISIONS, "subdirectory", "marker"}:
            revision = next((f"@{at[key]}" for key in _REVISIONS if key in at), "")
            folder = f"#subdirectory={at['subdirectory']}" if "subdirectory" in at else ""
            return f"{name} @ git+{url}{revision}{folder}{marker}"
        case [{"url": url, **at}] if at.keys() <= {"subdirectory", "marker"}:
            folder = f"#subdirectory={at['subdirectory']}" if "subdirectory" in at else ""
            return f"{name} @ {url}{folder}{marker}"
    raise InvalidInput(
        f"[tool.uv.sources] in {path} takes {name} from a place that hosts do not have.",
        "Copy a folder with `jupyter tpu sync`, and install it with `%pip install -e` in a "
        "notebook.",
    )


def _is_for_hosts(path: str, source: dict[str, Any]) -> bool:
    """Whether a source is for Linux, as hosts have it."""
    if "extra" in source or "group" in source:
        return False
    if "marker" not in source:
        return True
    text = str(source["marker"])
    try:
        words = set(re.findall(r"[a-z_]+", re.sub(r"'[^']*'|\"[^\"]*\"", "", text)))
        names = words - {"and", "or", "in", "not"}
        if names and names <= _LINUX.keys():
            return Marker(text).evaluate(dict(_LINUX))
    except InvalidMarker:
        pass
    raise InvalidInput(
        f"[tool.uv.sources] in {path} has a source for {text}, which is known on the hosts only.",
        _EXPORT,
    )
