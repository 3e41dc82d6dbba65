"""The documentation site's hooks, for MkDocs (`make docs`).

The menu is made from the lists of docs/README.md. Links to files outside of docs/ lead to the
repository. Some reference pages are made from the code at the build: see `made_pages`.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import made_pages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/jupyter-tpu/jupyter-tpu/blob/main/"
#: The section of the menu that made pages are in.
MADE_IN = "Reference"
#: Parts of the theme that a reader never loads: maps of its sources, search in other languages.
UNUSED = ("assets/**/*.map", "assets/javascripts/lunr")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = menu((DOCS / "README.md").read_text(encoding="utf-8"))
    return config


def menu(index: str) -> list[Any]:
    """The site's menu: a section for each "##" of the index, a page for each line's first link."""
    sections: list[Any] = [{"Home": "README.md"}]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        pages = re.findall(r"^- \[([^\]]+)\]\(((?!\.\.)[^)]+\.md)\)", text, re.MULTILINE)
        entries: list[Any] = [{name: path} for name, path in pages]
        if title == MADE_IN:
            entries += [{page.title: page.path} for page in made_pages.PAGES]
        sections.append({title: entries})
    return sections


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page in made_pages.PAGES:
        files.append(File.generated(config, page.path, content=page.make()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    folder = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri == "README.md":
        page.meta["hide"] = ["navigation"]

    def link(match: re.Match[str]) -> str:
        target, mark, anchor = match[1].partition("#")
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if "://" in target or not target or path.startswith("docs/"):
            return match[0]
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {match[1]}")
        return f"]({REPOSITORY}{path}{mark}{anchor})"

    return _plain_pipes(re.sub(r"\]\(([^)\s]+)\)", link, markdown))


def _plain_pipes(markdown: str) -> str:
    """Code in tables has "\\|" for GitHub; Python-Markdown would show the backslash."""
    return re.sub(
        r"^\|.*$",
        lambda row: re.sub(r"`[^`]+`", lambda code: code[0].replace("\\|", "|"), row[0]),
        markdown,
        flags=re.MULTILINE,
    )


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for pattern in UNUSED:
        for path in site.glob(pattern):
            if path.is_dir():
                for below in sorted(path.rglob("*"), reverse=True):
                    below.rmdir() if below.is_dir() else below.unlink()
                path.rmdir()
            else:
                os.unlink(path)
