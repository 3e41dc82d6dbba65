"""Requirements files of this computer: lines that name its own files, which hosts do not have.

Other requirements files (``-r``) are read here. What can't be on a host is refused, by the name of
the file and the line, before a host is asked for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import InvalidInput
from ..local_files import read_text

_OPTION = r"(?:{short}\s*|(?:{long})(?:\s*=\s*|\s+))(?P<value>\S.*)"
_INCLUDED = re.compile(_OPTION.format(short="-r", long="--requirements?"))
_CONSTRAINTS = re.compile(_OPTION.format(short="-c", long="--constraints?"))
_EDITABLE = re.compile(_OPTION.format(short="-e", long="--editable"))
_LINKS = re.compile(_OPTION.format(short="-f", long="--find-links"))
#: NAME @ URL, also with extras.
_NAMED = re.compile(r"[A-Za-z0-9][\w.-]*\s*(?:\[[^\]]*\])?\s*@\s*(?P<target>.*)")
_LOCAL = re.compile(r"[./~\\]|[A-Za-z]:[\\/]|(?:git\+)?file:")
_ARCHIVE = re.compile(r"\.(whl|zip|tar\.\w+|tgz)$")


def read_requirements(path: str) -> str:
    """The text of a requirements file, with that of the files that it names with ``-r``.

    Raises INVALID for what is only on this computer. Raises OSError, UnicodeDecodeError for *path*.
    """
    return "\n".join([*_read(Path(path).expanduser(), path, ())])


def check_requirement_lines(text: str, name: str) -> None:
    """Raises INVALID for what is about files of another computer than the host. name: of the text,
    for a person.
    """
    for number, line, _ in _logical_lines(text):
        if included := _INCLUDED.fullmatch(line):
            if "://" in included["value"]:
                continue
            raise InvalidInput(
                f"{name}, line {number}: {line} names another file.",
                "Write its lines here, or use `--requirements` in a terminal, which reads it.",
            )
        _check_line(line, f"{name}, line {number}")


def is_local(requirement: str) -> bool:
    """Whether it is a file or folder, and not a package or an address."""
    body = re.split(r"\s;|\s--", requirement, maxsplit=1)[0].strip()
    named = _NAMED.fullmatch(body)
    target = named["target"] if named else body
    if _LOCAL.match(target):
        return True
    return "://" not in target and bool(re.search(r"[/\\]", target) or _ARCHIVE.search(target))


def _read(path: Path, name: str, above: tuple[Path, ...]) -> Iterator[str]:
    if path.resolve() in above:
        raise InvalidInput(f"{name} includes itself.", "Remove one of its -r lines.")
    for number, line, raw in _logical_lines(read_text(path)):
        included = _INCLUDED.fullmatch(line)
        if included and "://" not in included["value"]:
            other = path.parent / Path(included["value"].strip("\"'")).expanduser()
            try:
                yield from _read(other, str(other), (*above, path.resolve()))
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is not a text file"
                raise InvalidInput(
                    f"{name}, line {number}: {other} can't be read: {why}."
                ) from None
            continue
        _check_line(line, f"{name}, line {number}")
        yield raw


def _logical_lines(text: str) -> Iterator[tuple[int, str, str]]:
    """(number, line without its comment, line) of each; one that ends in a backslash goes on.

    As pip has them: any of Python's line ends is one.
    """
    number, parts = 0, [""]
    for count, line in enumerate(text.splitlines(), 1):
        number = number or count
        comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not comment:
            parts.append(line[:-1])
            continue
        raw = "".join([*parts, line])
        yield number, re.sub(r"(^|\s)#.*", "", raw).strip(), raw
        number, parts = 0, [""]
    if number:
        raw = "".join(parts)
        yield number, re.sub(r"(^|\s)#.*", "", raw).strip(), raw


def _check_line(line: str, where: str) -> None:
    if _CONSTRAINTS.fullmatch(line):
        raise InvalidInput(
            f"{where}: {line} is not possible here.",
            "Write the versions into the requirements, or use --lock with exact versions.",
        )
    if _EDITABLE.fullmatch(line):
        raise InvalidInput(
            f"{where}: {line} needs a folder of the host.",
            "Remove the line; `uv export --no-emit-project` writes none. Copy the folder with "
            "`jupyter tpu sync`, and install it with `%pip install -e` in a notebook.",
        )
    links = _LINKS.fullmatch(line)
    if (links and "://" not in links["value"]) or (not line.startswith("-") and is_local(line)):
        raise InvalidInput(
            f"{where}: {line} is a file or folder of this computer.",
            "Hosts install packages from the network: write NAME, or NAME @ https://ADDRESS.",
        )
