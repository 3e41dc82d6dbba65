"""The documentation against the code: what it lists is complete, and what it names exists."""

import importlib.util
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from jupyter_tpu.cli.root import tpu
from jupyter_tpu.errors import InvalidInput, Reason
from jupyter_tpu.magics import grammar as magics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md"))]
SCRIPT = ROOT / "scripts" / "reference_docs.py"
#: Set by our own programs, for programs on hosts.
INTERNAL = {
    "JUPYTER_TPU_AGENT_IDLE", "JUPYTER_TPU_EMULATED", "JUPYTER_TPU_EMULATED_CORES",
    "JUPYTER_TPU_EMULATED_HBM", "JUPYTER_TPU_EMULATED_HOST", "JUPYTER_TPU_EMULATED_PLUGINS",
    "JUPYTER_TPU_KERNEL_FOLDER", "JUPYTER_TPU_METRICS_ADDRESS", "JUPYTER_TPU_NAME",
    "JUPYTER_TPU_POD", "JUPYTER_TPU_RAY", "JUPYTER_TPU_RAY_CHIPS", "JUPYTER_TPU_RAY_NAME",
    "JUPYTER_TPU_RAY_PORTS", "JUPYTER_TPU_SESSIONS", "JUPYTER_TPU_SESSION_KEY",
    "JUPYTER_TPU_WORKER", "JUPYTER_TPU_ZONE",
}  # fmt: skip


def reference(script: Path = SCRIPT) -> Any:
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_options_commands_magics_and_rest_are_what_the_code_says():
    """Else: `make types`."""
    made = reference()
    for page in made.tables():
        assert (DOCS / page).read_text() == made.render(page), f"docs/{page}: run `make types`"


def test_the_picture_of_the_rooms_is_what_the_contracts_say():
    """Else: `make types`."""
    made = reference(SCRIPT.with_name("rooms.py"))
    assert made.main(["--check"]) == 0
    assert ["files", "forwarding", "homes", "kernels"] in made.floors("fleet")


def test_the_pictures_of_the_concepts_are_what_the_script_draws():
    """Else: `make types`. One of them is drawn from the table on its page."""
    made = reference(SCRIPT.with_name("pictures.py"))
    assert made.main(["--check"]) == 0
    assert ">goes on<" in made.survives()


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in (DOCS / "images").iterdir()}
    assert sizes.pop("tour.webp") <= 2_000_000
    assert {name: size for name, size in sizes.items() if size > 100_000} == {}


def test_each_error_reason_has_an_entry():
    page = (DOCS / "reference/troubleshooting.md").read_text()
    entries = re.findall(r"^### `(\w+)`$", page, re.MULTILINE)
    assert sorted(entries) == sorted(Reason)


def test_each_environment_variable_is_explained():
    sources = "".join(path.read_text() for path in (ROOT / "jupyter_tpu").rglob("*.py"))
    used = set(re.findall(r"\"(JUPYTER_TPU_[A-Z_]+)\"", sources)) - INTERNAL
    page = (DOCS / "reference/configuration.md").read_text()
    assert {name for name in used if f"`{name}`" not in page} == set()


def test_each_page_is_in_the_index():
    index = (DOCS / "README.md").read_text()
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_what_exists():
    blob = "https://github.com/jupyter-tpu/jupyter-tpu/blob/main/"
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            base = ROOT if link.startswith(blob) else page.parent
            path, _, anchor = link.removeprefix(blob).partition("#")
            if "://" in path:
                continue
            target = base / path if path else page
            assert target.exists(), f"{page}: {link}"
            if anchor and not anchor.endswith("-mode-only"):  # a picture for one theme
                assert anchor in anchors(target), f"{page}: {link}"


def commands(page: Path, word: str) -> Iterator[str]:
    """The command lines on a page that begin with *word*."""
    text = re.sub(r"\\\n\s*", "", page.read_text())
    for block in re.findall(r"^```[^`\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            yield from re.findall(rf"^(?:\$ )?{word} (\w.*)", line)
    inline = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`([^`]+)`", inline):
        yield from re.findall(rf"^{word} (\w.*)", " ".join(code.split()))


def parse(group: click.Group, line: str) -> None:
    """Parses a command line and runs nothing; click raises UsageError for a wrong one."""
    words = shlex.split(line.partition(" | ")[0], comments=True)
    command: click.Command = group
    ctx = click.Context(group, info_name=group.name)
    while isinstance(command, click.Group):
        name, subcommand, words = command.resolve_command(ctx, words)
        assert subcommand is not None
        if not words and len(line.split()) <= 2:
            return  # the name of a command alone
        command, ctx = subcommand, click.Context(subcommand, parent=ctx, info_name=name)
    command.parse_args(ctx, words)


GROUPS = (tpu, "jupyter tpu"), (magics.line, "%tpu")


def test_commands_on_the_pages_are_commands():
    for page, (group, word) in itertools.product(PAGES, GROUPS):
        for line in commands(page, word):
            # The tables of commands, and sentences that leave something out.
            if "OPTIONS" in line or "…" in line:
                continue
            try:
                parse(group, line)
            except click.exceptions.Exit:  # --help
                pass
            except InvalidInput as error:
                if "Can't read " not in error.message:  # a file of the reader's computer
                    pytest.fail(f"{page}: {word} {line}: {error.message}")
            except click.UsageError as error:
                pytest.fail(f"{page}: {word} {line}: {error.format_message()}")
