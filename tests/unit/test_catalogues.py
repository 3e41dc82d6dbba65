"""The catalogues of translations are up to date, and JupyterLab finds them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
LANGUAGES = ("ja_JP", "ko_KR", "zh_CN")
sys.path.insert(0, str(TOP / "scripts"))


def test_the_translations_of_the_catalogues_are_right():
    command = [sys.executable, "scripts/catalogue.py", "--check"]
    checked = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_jupyterlab_finds_the_panels_translations(language):
    from jupyterlab_server.translation_utils import get_language_pack

    pack, message = get_language_pack(language)
    assert not message
    ours = pack["jupyter_tpu"]
    assert ours[""]["language"] == language.replace("_", "-")
    assert "pluralForms" in ours[""]


def test_a_catalogue_is_compiled_without_what_is_not_translated(tmp_path):
    from compile_catalogues import compile_catalogues

    path = tmp_path / "zh_CN" / "LC_MESSAGES" / "jupyter_tpu.po"
    path.parent.mkdir(parents=True)
    path.write_text(
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        '"Plural-Forms: nplurals=1; plural=0;\\n"\n\n'
        '#. frontend\nmsgid "Delete %1?"\nmsgstr "删除 %1？"\n\n'
        '#. frontend\nmsgid "%1 host"\nmsgid_plural "%1 hosts"\nmsgstr[0] "%1 台主机"\n\n'
        '#. frontend\n#, fuzzy\nmsgid "Stop %1?"\nmsgstr "停止 %1？"\n\n'
        '#. sentence\nmsgid "Wait."\nmsgstr ""\n\n'
        '#. sentence\nmsgid "It waits."\nmsgstr "正在等待。"\n\n'
        '#. help\nmsgid "Print JSON."\nmsgstr "打印 JSON。"\n'
    )
    panel, server, terminal = (
        json.loads(made.read_text(encoding="utf-8")) for made in compile_catalogues(tmp_path)
    )
    assert {text: forms for text, forms in panel.items() if text} == {
        "Delete %1?": ["删除 %1？"],
        # JupyterLab takes no text for a plural that has less than two forms.
        "%1 host": ["%1 台主机", "%1 台主机"],
    }
    del server[""], terminal[""]
    assert server == {"It waits.": ["正在等待。"]}
    assert terminal == {"Print JSON.": ["打印 JSON。"]}


def test_vs_code_gets_a_bundle_and_the_texts_of_its_manifest(tmp_path):
    from compile_catalogues import compile_for_vscode

    path = tmp_path / "ja_JP" / "LC_MESSAGES" / "jupyter_tpu.po"
    path.parent.mkdir(parents=True)
    path.write_text(
        'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n'
        '"Plural-Forms: nplurals=1; plural=0;\\n"\n\n'
        '#. frontend\nmsgid "%1 host"\nmsgid_plural "%1 hosts"\nmsgstr[0] "ホスト %1 台"\n\n'
        '#. sentence\nmsgid "It waits."\nmsgstr "待機中です。"\n\n'
        '#. vscode\nmsgid "Stop Job"\nmsgstr "ジョブを停止"\n\n'
        '#. help\nmsgid "Print JSON."\nmsgstr "JSON を出力します。"\n'
    )
    extension = tmp_path / "vscode"
    extension.mkdir()
    keys = {"command.stopJob": "Stop Job", "command.new": "Not translated"}
    (extension / "package.nls.json").write_text(json.dumps(keys))
    compile_for_vscode(tmp_path, extension)
    manifest, bundle = (
        json.loads((extension / name).read_text(encoding="utf-8"))
        for name in ("package.nls.ja.json", "l10n/bundle.l10n.ja.json")
    )
    assert manifest == {"command.stopJob": "ジョブを停止"}  # VS Code fills in English
    assert bundle == {"%1 host": "ホスト %1 台", "Stop Job": "ジョブを停止"}


def test_what_vs_code_shows_of_the_manifest_has_a_key(tmp_path, monkeypatch):
    import catalogue as script

    (tmp_path / "package.nls.json").write_text('{"title": "Stop Job"}')
    manifest = {"displayName": "Cloud TPU", "contributes": {"commands": [{"title": "%title%"}]}}
    (tmp_path / "package.json").write_text(json.dumps(manifest))
    monkeypatch.setattr(script, "MANIFEST_TEXTS", tmp_path / "package.nls.json")
    assert script._manifest_texts() == ["Stop Job"]
    manifest["contributes"]["commands"].append({"title": "Follow Job"})
    (tmp_path / "package.json").write_text(json.dumps(manifest))
    with pytest.raises(SystemExit, match="'Follow Job' is no key"):
        script._manifest_texts()


def test_an_update_keeps_translations_and_marks_those_of_changed_texts():
    import catalogue as script
    import polib

    before = polib.POFile()
    before.metadata = {}
    before.append(polib.POEntry(msgid="{name} is gone.", msgstr="{name} 已不存在。"))
    before.append(polib.POEntry(msgid="The host has no Python.", msgstr="主机没有 Python。"))
    before.append(polib.POEntry(msgid="Never again.", msgstr="不再。"))
    now = [
        script.Entry("{tpu} is gone.", "sentence"),
        script.Entry("This host has no Python.", "sentence"),
    ]
    after = script.update(before, now)
    renamed, changed = after
    assert renamed.msgstr == "{tpu} 已不存在。"
    assert not renamed.fuzzy
    assert (changed.msgstr, changed.fuzzy) == ("主机没有 Python。", True)
    assert script.problems(after, now) == []


@pytest.mark.parametrize(
    ("translation", "problem"),
    [
        ("{tpu} 已不存在。", None),
        ("已不存在。", "other parameters"),
        ("{name} 已不存在。", "other parameters"),
        ("{tpu} 已不存在。 ", "blanks at an end"),
        ("{tpu} 已不存在，请运行 `jupyter`。", "other code in backticks"),
    ],
)
def test_a_wrong_translation_is_a_problem(translation, problem):
    import catalogue as script
    import polib

    one = polib.POFile()
    one.append(polib.POEntry(msgid="{tpu} is gone.", msgstr=translation))
    present = [script.Entry("{tpu} is gone.", "sentence")]
    problems = script.problems(one, present)
    assert [line.partition(":")[0] for line in problems] == ([problem] if problem else [])
    assert script.gaps(one, present) == []


def test_a_text_without_a_translation_is_named_and_is_no_problem():
    import catalogue as script
    import polib

    one = polib.POFile()
    one.append(polib.POEntry(msgid="Wait.", msgstr=""))
    one.append(polib.POEntry(msgid="Never again.", msgstr="不再。"))
    present = [script.Entry(text, "sentence") for text in ("Wait.", "It is new.")]
    assert script.problems(one, present) == []
    assert script.gaps(one, present) == [
        "not translated: It is new.",
        "not translated: Wait.",
        "not in the code: Never again.",
    ]


def test_sentences_and_labels_are_found_in_python_code(tmp_path):
    from python_sentences import texts

    (tmp_path / "jupyter_tpu" / "commands").mkdir(parents=True)
    package = tmp_path / "jupyter_tpu"
    (package / "errors.py").write_text(
        '"""This docstring is not for users."""\n'
        "def f(self, n, cause):\n"
        '    log.warning("A log is not for users.")\n'
        '    raise E(f"{self.tpu.name} has no host {n}. " "Try another.")\n'
        "    raise E(f\"The link was lost{': ' + cause if cause else ''}.\")\n"
        '    raise E("The host has no %s." % cause)\n'
        '    progress.log(f"Connected to host {n}")\n'
        '    return count(n, "host"), "key", "SELECT a FROM b WHERE c = ?"\n'
        'HINT = f"Start it: jupyter tpu start {name}"\n'
        'GONE = f"It is gone. {HINT}"\n'
        'FAILED = f"The host did not answer: {error}"\n'
        'PART = phrase(f"{n} left out")\n'
    )
    (package / "commands" / "group.py").write_text(
        '@command("stop")\n@click.option("--yes", help="Do not ask")\ndef stop():\n'
        '    """Stop TPUs.\n\n    \\b\n    jupyter tpu stop my-tpu\n    """\n'
        '    table(("NAME", "STATE"), [])\n'
    )
    assert [(text.text, text.group) for text in texts(package)] == [
        ("Stop TPUs.", "help"),
        ("NAME", "label"),
        ("STATE", "label"),
        ("Do not ask", "help"),
        ("{tpu_name} has no host {n}. Try another.", "sentence"),
        ("The link was lost: {cause}.", "sentence"),
        ("The link was lost.", "sentence"),
        ("The host has no {cause}.", "sentence"),
        ("Connected to host {n}", "label"),
        ("{number} hosts", "label"),
        ("{number} host", "label"),
        ("Start it: {command}", "sentence"),
        ("It is gone.", "sentence"),
        ("The host did not answer: {error}", "sentence"),
        ("{n} left out", "label"),
    ]
