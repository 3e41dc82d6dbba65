"""Merging into tasks.json keeps what is the user's, and says no to what it can't read."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu import catalog
from jupyter_tpu.cli import main
from jupyter_tpu.commands import jsonc
from jupyter_tpu.commands.vscode import inputs, merge, tasks

TASKS = tasks()
INPUTS = inputs()
OURS = {task["label"] for task in TASKS}


def parsed(text: str) -> Any:
    return jsonc.parse(text.removeprefix("\ufeff")).value


def test_an_empty_or_missing_file_becomes_one_with_only_our_tasks():
    for empty in ("", "\ufeff", " \n"):
        made = json.loads(merge(empty, TASKS, INPUTS))
        assert made == {"version": "2.0.0", "tasks": TASKS, "inputs": INPUTS}


def test_an_older_task_of_ours_is_replaced_in_its_place():
    old = '{"tasks": [{"label": "TPU: list", "command": "old"}, {"label": "mine"}]}'
    value = parsed(merge(old, TASKS, INPUTS))
    labels = [task["label"] for task in value["tasks"]]
    assert labels[:2] == ["TPU: list", "mine"]
    assert sorted(labels) == sorted([*OURS, "mine"])
    assert value["tasks"][0]["args"] == ["-P", "-m", "jupyter_tpu.cli", "list"]


def test_the_files_own_indentation_and_line_ends_are_used():
    old = '{\r\n\t"tasks": [\r\n\t\t{"label": "mine"}\r\n\t]\r\n}\r\n'
    merged = merge(old, TASKS, INPUTS)
    assert '\r\n\t\t{\r\n\t\t\t"label": "TPU: start Jupyter server"' in merged
    assert "\n" not in merged.replace("\r\n", "")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
user_tasks = st.lists(
    st.dictionaries(st.text(), json_values)
    | st.fixed_dictionaries(
        {"label": st.text().filter(lambda label: label not in OURS), "command": st.text()}
    ).map(dict),
    max_size=5,
)
remarks = st.text(st.characters(exclude_characters="\r\n*/", exclude_categories=["Cs"]))


@settings(max_examples=40)
@given(
    tasks=user_tasks,
    others=st.dictionaries(st.text().filter(lambda k: k not in ("tasks", "inputs")), json_values),
    remark=remarks,
    indent=st.sampled_from([None, 2, 4, "\t"]),
    trailing=st.booleans(),
)
def test_whatever_the_user_has_survives(tasks, others, remark, indent, trailing):
    user = {**others, "tasks": tasks}
    text = json.dumps(user, indent=indent, ensure_ascii=False)
    if trailing:
        text = text[:-1] + f", // {remark}\n}}"
    text = f"// {remark}\n{text}\n/* {remark} */"
    merged = merge(text, TASKS[:2], INPUTS[:1])
    value = parsed(merged)
    assert value["tasks"][: len(tasks)] == tasks
    assert value["tasks"][len(tasks) :] == TASKS[:2]
    assert value["inputs"] == INPUTS[:1]
    assert {k: v for k, v in value.items() if k not in ("tasks", "inputs")} == {
        "version": "2.0.0",
        **others,
    }
    assert merged.count(f"// {remark}\n") == text.count(f"// {remark}\n")
    assert merge(merged, TASKS[:2], INPUTS[:1]) == merged


@given(json_values, st.sampled_from([None, 1, 4, "\t"]))
def test_the_reader_agrees_with_json(value, indent):
    text = json.dumps(value, indent=indent)
    part = jsonc.parse(f" /* a */ {text} // b")
    assert part.value == json.loads(text)


@pytest.mark.parametrize(
    "broken",
    [
        "{", "[1 2]", '{"a" 1}', '{"a": 1} x', "{,}", '{"a": "\\q"}', "/* open", "'a'", "nul",
    ],
)  # fmt: skip
def test_the_reader_says_where_a_text_is_wrong(broken):
    with pytest.raises(ValueError, match=r"line \d+ column \d+"):
        jsonc.parse(broken)


def test_a_text_that_is_nested_too_deeply_is_refused():
    with pytest.raises(ValueError, match="nested too deeply"):
        jsonc.parse("[" * 200_000)


@pytest.mark.parametrize("bad", ['{"tasks": [', "[]", '{"tasks": {}}', '{"inputs": 3}', "// only"])
def test_a_file_that_cannot_be_merged_is_not_touched(bad, tmp_path, capsys):
    path = tmp_path / ".vscode" / "tasks.json"
    path.parent.mkdir()
    path.write_text(bad)
    assert main(["vscode", str(tmp_path)]) == 1
    complaint = capsys.readouterr().err
    assert "was not changed" in complaint
    assert complaint.count("\n") == 1
    assert path.read_text() == bad
    assert list(path.parent.iterdir()) == [path]


def test_the_command_writes_the_file_and_then_leaves_it(tmp_path, capsys):
    assert main(["vscode", str(tmp_path)]) == 0
    path = tmp_path / ".vscode" / "tasks.json"
    assert "TPU: create and connect" in capsys.readouterr().out
    written = path.stat().st_mtime_ns, path.read_text()
    assert main(["vscode", str(tmp_path)]) == 0
    assert "already" in capsys.readouterr().out
    assert (path.stat().st_mtime_ns, path.read_text()) == written


def test_only_the_server_stays_in_the_background_and_vs_code_learns_when_it_runs():
    [server] = [task for task in TASKS if task.get("isBackground")]
    assert server["label"] == "TPU: start Jupyter server"
    background = server["problemMatcher"]["background"]
    assert {"beginsPattern", "endsPattern", "activeOnStart"} <= background.keys()
    assert server["problemMatcher"]["pattern"]["regexp"]


def test_the_file_can_be_shared():
    """The Python is the one that each user chose in VS Code."""
    assert {task["command"] for task in TASKS} == {"${command:python.interpreterPath}"}
    text = json.dumps([TASKS, INPUTS])
    for path in (sys.prefix, sys.executable, str(Path.home()), os.getcwd()):
        assert path not in text


@pytest.mark.parametrize("own", ["", "us-central2-b", "us-west4-a", "nowhere-a"])
def test_the_proposed_zone_has_the_proposed_type(own, monkeypatch):
    monkeypatch.delenv("JUPYTER_TPU_EMULATOR", raising=False)
    monkeypatch.setenv("CLOUDSDK_COMPUTE_ZONE", own)
    defaults = {entry["id"]: entry["default"] for entry in inputs()}
    assert defaults["tpuZone"] in catalog.accelerator_type(defaults["tpuType"]).zones
    if own in catalog.zones():
        assert defaults["tpuZone"] == own
    if own != "us-central2-b":  # it has only v4
        assert defaults["tpuType"] == "v5litepod-8"


def test_pickers_offer_every_type_with_what_it_means_and_every_zone():
    by_id = {entry["id"]: entry for entry in INPUTS}
    options = {option["value"]: option["label"] for option in by_id["tpuType"]["options"]}
    assert set(options) == {type.name for type in catalog.types()}
    assert options["v5litepod-8"] == "v5litepod-8 = 8 chips · 1 host · 128 GB HBM"
    zones = {option["value"]: option["label"] for option in by_id["tpuZone"]["options"]}
    assert list(zones) == sorted(catalog.zones())
    assert zones["us-central2-b"] == "us-central2-b: v4"


def test_every_picker_a_task_names_is_there_and_no_secret_is():
    text = json.dumps(TASKS)
    assert set(re.findall(r"\$\{input:(\w+)\}", text)) == {entry["id"] for entry in INPUTS}
    assert "token" not in text
