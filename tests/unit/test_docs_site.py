"""The documentation site: it builds without a warning, and needs nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_tpu.fleet.models import Operation
from jupyter_tpu.server.openapi import document

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import made_pages

ROOT = Path(__file__).parents[2]

# ---- the pages that are made from the code -------------------------------------------------------


def test_every_request_of_the_rest_document_is_on_its_page_with_a_command():
    page = made_pages.rest()
    requests = [
        f"{method.upper()} {path.removeprefix('/')}"
        for path, methods in document()["paths"].items()
        for method in methods
    ]
    assert len(requests) > 50
    headings = re.findall(r"^### `([^`]+)`$", page, re.MULTILINE)
    assert sorted(headings) == sorted(requests)
    assert "jupyter tpu api POST hunts --data" in page


def test_types_of_the_rest_page_lead_to_their_fields():
    types = (ROOT / "docs/reference/rest.md").read_text()
    links = set(re.findall(r"\(rest\.md#([\w-]+)\)", made_pages.rest()))
    assert Operation.__name__.lower() in links
    fields = {name.lower() for name in re.findall(r"^### (\w+)$", types, re.MULTILINE)}
    assert links - fields == set()


def test_made_pages_have_a_title_and_something_to_say():
    for page in made_pages.PAGES:
        title, _, text = page.make().partition("\n")
        assert title.startswith("# ")
        assert len(text) > 1000


# ---- the site ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make docs` makes. Its warnings are errors."""
    pytest.importorskip("material", reason="SKIPPED FOR WANT OF mkdocs-material")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.long
def test_no_page_loads_anything_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 35
    loads = re.compile(
        r'<(?:script|img|iframe|source|video)[^>]+src="(?:https?:)?//[^"]+"'
        r'|<link[^>]+rel="(?:stylesheet|preconnect|preload)"[^>]+href="https?:[^"]+"'
    )
    loaded = {str(page.relative_to(site)): loads.findall(page.read_text()) for page in pages}
    assert {page: urls for page, urls in loaded.items() if urls} == {}


@pytest.mark.long
def test_every_page_is_in_the_search(site):
    index = (site / "search/search_index.js").read_text()
    for name in ("tpus/hunts.html", "reference/command-options.html", "reference/settings.html"):
        assert f'"{name}' in index


@pytest.mark.long
def test_code_in_tables_is_shown_as_it_is_typed(site):
    page = (site / "reference/commands.html").read_text()
    assert "DIR|NAME:DIR NAME[:DIR]|DIR" in page
    assert not re.search(r"<code>[^<]*\\\|[^<]*</code>", page)
