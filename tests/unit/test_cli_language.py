"""`jupyter tpu` in the user's language."""

from __future__ import annotations

import json

import pytest

from jupyter_tpu.cli.root import run
from jupyter_tpu.language import catalogues
from jupyter_tpu.terminal import language

CATALOGUE = {
    "No Google Cloud project is set.": ["未设置 Google Cloud 项目。"],
    "Set one with `gcloud config set project PROJECT`.": ["请运行它。"],
    "Stop TPUs. Their disks are kept.": ["停止 TPU。其磁盘会保留。"],
    "Missing argument {name}.": ["缺少参数 {name}。"],
    "Options": ["选项"],
    "NAME": ["名称"],
    "connected": ["已连接"],
    "Print JSON.": ["打印 JSON。"],
}


@pytest.fixture(autouse=True)
def catalogue(tmp_path, monkeypatch):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", language.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "zh_CN" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "jupyter_tpu.json").write_text(json.dumps({"": {"language": "zh-CN"}}))
    (folder / "terminal.json").write_text(json.dumps(CATALOGUE))
    monkeypatch.setattr(catalogues, "_LOCALE", tmp_path)
    catalogues.in_terminal.cache_clear()
    yield
    language.choose_language("")
    catalogues.in_terminal.cache_clear()


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, ""),
        ({"LANG": "C.UTF-8"}, ""),
        ({"LANG": "zh_CN.UTF-8"}, "zh_CN"),
        ({"LANG": "zh_SG.UTF-8"}, "zh_CN"),
        ({"LANG": "zh_TW.UTF-8"}, ""),  # its readers would get other characters than theirs
        ({"LANG": "ko_KR.UTF-8", "LC_MESSAGES": "ja_JP.UTF-8"}, "ja_JP"),
        ({"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, ""),
        ({"LANG": "ko_KR.UTF-8", "JUPYTER_TPU_LANG": "en"}, ""),
        ({"JUPYTER_TPU_LANG": "zh"}, "zh_CN"),
        ({"JUPYTER_TPU_LANG": "Klingon"}, ""),
    ],
)
def test_the_language_is_that_of_the_locale_or_of_the_variable(variables, name, monkeypatch):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    assert language.catalogue_name() == name


@pytest.mark.parametrize("words", [["stop", "--lang", "zh"], ["--lang=zh", "stop"]])
def test_an_error_is_in_the_language_of_lang(words, capsys):
    assert run(words) == 2
    assert "jupyter tpu: 缺少参数 'NAME...'。" in capsys.readouterr().err


def test_help_is_translated_whatever_comes_first(capsys, monkeypatch):
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    assert "stop          停止 TPU。其磁盘会保留。" in text
    assert "选项:" in text
    assert run(["--help", "--lang", "en"]) == 0
    assert "Stop TPUs. Their disks are kept." in capsys.readouterr().out
    assert run(["stop", "--help", "--lang", "ko"]) == 0  # without a catalogue: English
    assert "Options:" in capsys.readouterr().out


def test_an_unknown_language_is_refused(capsys):
    assert run(["list", "--lang", "fr"]) == 2
    assert "'fr' is not one of" in capsys.readouterr().err


def test_tables_have_translated_heads_and_states_and_what_programs_read_does_not(
    capsys, monkeypatch
):
    from jupyter_tpu.terminal.printing import print_json
    from jupyter_tpu.terminal.streams import clean_output
    from jupyter_tpu.terminal.tables import state_text, table

    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    with clean_output():
        print(table(("NAME", "STATE"), [("Print JSON.", state_text("connected"))]))
        print_json({"message": "No Google Cloud project is set.", "name": "Print JSON."})
        print("Print JSON.")
    table_text, _, rest = capsys.readouterr().out.partition("{")
    # A cell of a table is a name, even if it looks like a sentence.
    assert table_text.split() == ["名称", "STATE", "Print", "JSON.", "已连接"]
    body, _, last = rest.rpartition("}")
    assert json.loads("{" + body + "}") == {
        "message": "No Google Cloud project is set.",
        "name": "Print JSON.",
    }
    assert last.strip() == "打印 JSON。"
