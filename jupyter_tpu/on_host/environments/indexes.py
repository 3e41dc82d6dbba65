"""Packages from an index of their own: ``torch  # --index-url https://download.pytorch.org/whl/cpu``.

Other programs take the note for a comment. `as_project` is how uv is told: only these packages are
looked for there.
"""

import json
import re

#: The options of a requirements file that say where packages come from.
OPTIONS = re.compile(
    r"\s*(-i|-f|--(extra-|default-)?index(-url)?|--find-links|--no-index|--trusted-host)\b"
)
_NOTED = re.compile(r"(?P<requirement>[^#]*?)\s+# --index-url (?P<index>https?://[^\s\"\\]+)\s*")


def split(requirement):
    """(requirement, index) of a line; the index is "" if it has no note."""
    match = _NOTED.fullmatch(requirement)
    return (match.group("requirement"), match.group("index")) if match else (requirement, "")


def noted(requirement, index):
    """The inverse."""
    return "%s  # --index-url %s" % (requirement, index) if index else requirement


def folded(lines):
    """The lines of ``uv pip compile --emit-index-annotation``, which says it in the next one."""
    together = []  # type: ignore[var-annotated]
    for line in lines:
        match = re.fullmatch(r"\s+# from (\S+)", line)
        if match and together:
            together[-1] = noted(together[-1].rstrip(), match.group(1))
        elif line.strip() and not line.lstrip().startswith("#"):
            together.append(line)
    return together


def as_project(requirements, name_of):
    """The text of a pyproject.toml with those of the *requirements* that have an index of their
    own; "" if there is none.
    """
    indexes, sources, dependencies = {}, {}, []  # type: ignore[var-annotated]
    for line in requirements:
        requirement, index = split(line)
        if not index:
            continue
        key = indexes.setdefault(index, "index-%d" % len(indexes))
        source = {"index": key}
        marker = requirement.partition(";")[2].strip()
        if marker:
            source["marker"] = marker
        dependencies.append(requirement.strip())
        sources.setdefault(name_of(requirement), []).append(source)
    if not dependencies:
        return ""
    lines = [
        "[project]",
        'name = "jupyter-tpu-environment"',
        'version = "0"',
        "dependencies = [%s]" % ", ".join(map(_quoted, dependencies)),
        "[tool.uv.sources]",
    ]
    for name, of_package in sources.items():
        tables = (
            "{%s}" % ", ".join("%s = %s" % (key, _quoted(value)) for key, value in source.items())
            for source in of_package
        )
        lines.append("%s = [%s]" % (_quoted(name), ", ".join(tables)))
    for url, key in indexes.items():
        lines += ["[[tool.uv.index]]", "name = %s" % _quoted(key), "url = %s" % _quoted(url)]
        lines.append("explicit = true")
    return "\n".join([*lines, ""])


def _quoted(text):
    return json.dumps(text, ensure_ascii=False)  # also a basic string of TOML
