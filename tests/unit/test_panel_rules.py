"""The panel says what is wrong with a name while it is typed: by the server's own rules."""

import re
from pathlib import Path
from typing import get_args

import pytest

from jupyter_tpu.fleet import models
from jupyter_tpu.fleet.models.sessions import SessionPlace

SOURCES = Path(__file__).parents[2] / "labextension" / "src"


@pytest.mark.parametrize(
    ("file", "constant", "rule"),
    [
        ("model/names.ts", "NAME_PATTERN", models.TPUName),
        ("lifecycle/connectForm.ts", "ENVIRONMENT_PATTERN", models.EnvironmentName),
        ("sessions/sessionForm.ts", "PLACE_PATTERN", SessionPlace),
    ],
)
def test_the_panel_has_the_servers_rule(file, constant, rule):
    source = (SOURCES / file).read_text(encoding="utf-8")
    match = re.search(rf"{constant} =\s*'(.*)';", source)
    rules = get_args(rule)[1].pattern.removesuffix(r"(?!\n)")  # which JavaScript's $ implies
    assert match[1].replace("\\\\", "\\") == rules
