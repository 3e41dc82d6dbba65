"""English sentences in another language."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.fleet import models
from jupyter_tpu.language import accepted, in_language
from jupyter_tpu.language.fields import SENTENCES
from jupyter_tpu.language.sentences import Sentences, _template_of, _values_of

TOP = Path(__file__).parents[2]

CATALOGUE = {
    "{tpu} is not READY.": ["{tpu} 未就绪。"],
    "Try again later.": ["请稍后重试。"],
    "Host {number} said: {message}": ["主机 {number} 表示：{message}"],
    "The connection to {peer} was lost.": ["与 {peer} 的连接已断开。"],
    "The connection to {peer} was lost: {cause}.": ["与 {peer} 的连接已断开：{cause}。"],
    "%1 could not be created": ["无法创建 %1"],
    "Creating %1": ["正在创建 %1"],
    "Install JAX": ["安装 JAX"],
    "{number} hosts": ["{number} 台主机"],
    "{number} chips": ["{number} 个芯片"],
    "{done} of {total} hosts": ["{total} 台主机中的 {done} 台"],
    "{a}: {b}": ["{a}：{b}"],
    "{who} stopped it.": ["已被 {who} 停止。"],
    "Delete %1": ["删除 %1"],
    "Copied {what} to {where}.{more}": ["已将 {what} 复制到 {where}。{more}"],
    "{number} were there already.": ["{number} 个已存在。"],
    "Waiting for {what}": ["正在等待 {what}"],
    "the kernel": ["内核"],
}


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("my-tpu is not READY.", "my-tpu 未就绪。"),
        ("my-tpu is not READY. Try again later.", "my-tpu 未就绪。请稍后重试。"),
        ("Try again later. Unknown words here.", "请稍后重试。Unknown words here."),
        ("Host 3 said: my-tpu is not READY.", "主机 3 表示：my-tpu 未就绪。"),
        # The template with more words wins, and a cause may be a sentence without its full stop.
        ("The connection to a was lost: try again later.", "与 a 的连接已断开：请稍后重试。"),
        ("my-tpu could not be created", "无法创建 my-tpu"),
        ("creating my-tpu", "正在创建 my-tpu"),
        ("my-tpu: Install JAX (2 of 4 hosts)", "my-tpu: 安装 JAX (4 台主机中的 2 台)"),
        ("8 chips · 4 hosts · 128 GB HBM", "8 个芯片 · 4 台主机 · 128 GB HBM"),
        # A number is a number, and has a point that is no full stop.
        ("for all chips", None),
        (
            "Copied 4 hosts to b in 3.2 s. 2 were there already.",
            "Copied 4 hosts to b in 3.2 s. 2 个已存在。",
        ),
        ("Copied 4 hosts to b. 2 were there already.", "已将 4 台主机复制到 b。2 个已存在。"),
        # Not half in English, except for what other programs say.
        ("Delete it", None),
        ("Host 3 said: no such file", "主机 3 表示：no such file"),
        # Chinese has no blanks between its words, and a full stop of its own.
        ("Waiting for the kernel", "正在等待内核"),
        ("Waiting for the kernel.", "正在等待内核。"),
        # Names stay what they are, whatever they look like.
        ("{x} a. b？ is not READY.", "{x} a. b？未就绪。"),
        ("%1 is not READY.", "%1 未就绪。"),
        # A few words around English prose help nobody, and a name is not a sentence.
        ("Somebody who has the right to do that stopped it.", None),
        ("unknown", None),
        ("", None),
        ("constructor", None),
        ("Install", None),
    ],
)
def test_a_sentence_is_translated_by_its_template(english, chinese):
    assert Sentences(CATALOGUE).translate(english) == (chinese or english)


class Texts(list[str]):
    def __repr__(self) -> str:
        return f"{len(self)} texts"  # not all in each report of a failure


@pytest.fixture(scope="module")
def texts() -> Texts:
    """All texts with parameters that the code has, each parameter once."""
    import polib

    path = TOP / "jupyter_tpu/locale/zh_CN/LC_MESSAGES/jupyter_tpu.po"
    return Texts(
        entry.msgid
        for entry in polib.pofile(str(path))
        if (template := _template_of(entry.msgid, entry.msgid)) is not None
        and len(set(template.parameters)) == len(template.parameters)
    )


VALUES = st.one_of(
    st.from_regex(r"[a-z][a-z0-9-]{0,12}", fullmatch=True),
    st.integers(0, 99999).map(str),
    st.sampled_from(
        ["~/a b/c.py", "{x}", "a. b? c!", "שלום", "ｆｕｌｌ　ｗｉｄｔｈ", "%1", "", "{{", "\\1"]
    ),
    st.sampled_from(["Try again later.", "The connection to x was lost.", "3 hosts"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=20),
)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_filled_template_is_recovered(texts, data):
    """Its recovered parameters, put into it again, give the same sentence; so does the matching."""
    text = data.draw(st.sampled_from(texts))
    template = _template_of(text, text)
    values = {
        name: str(data.draw(st.integers(0, 99999)))
        if name in template.numbers
        else data.draw(VALUES)
        for name in template.parameters
    }
    for name, before in zip(template.parameters, template.literals, strict=False):
        if before.endswith((".", "?", "!")):  # another sentence follows
            values[name] = f" {values[name]}"
    if not template.literals[-1]:  # the end of a sentence would be its own
        values[template.parameters[-1]] += "x"
    parts = [template.literals[0]]
    for name, literal in zip(template.parameters, template.literals[1:], strict=True):
        parts += [values[name], literal]
    sentence = "".join(parts)
    recovered = _values_of(template, sentence)
    assert recovered is not None
    again = [template.literals[0]]
    for value, literal in zip(recovered, template.literals[1:], strict=True):
        again += [value, literal]
    assert "".join(again) == sentence
    # A catalogue that translates each text into itself changes nothing.
    own = Sentences({one: [one] for one in [text, *CATALOGUE]}).translate(sentence)
    # But for blanks between letters of Chinese, and the first letters of sentences.
    assert own.replace(" ", "").casefold() == sentence.replace(" ", "").casefold()


@pytest.mark.parametrize(
    "text",
    [
        "my-tpu is not READY. Host 3 said: it failed · 4 hosts " * 70,
        "Host 3 said: a is not READY. Copied 3 hosts to b. 2 were there already. " * 50,
        "Install JAX\nCreating my-tpu\n" * 5000,
        "x" * 10_000_000,
    ],
)
def test_a_text_that_is_made_to_be_hard_takes_no_time_and_no_memory(texts, text):
    sentences = Sentences({text: [f"« {text} »"] for text in texts} | CATALOGUE)
    assert sentences.translate("my-tpu is not READY.") == "my-tpu 未就绪。"
    begun = time.process_time()
    sentences.translate(text)
    assert time.process_time() - begun < 2  # without a bound: minutes
    assert sentences._kept_size < 100_000


def test_what_is_kept_is_bounded():
    sentences = Sentences(CATALOGUE)
    for number in range(3000):
        sentences.translate(f"{number} is not READY" + " " * 3000)
    assert sentences._kept_size <= 2_000_000


def test_names_from_right_to_left_turn_nothing_around_on_pages():
    pages = Sentences(CATALOGUE, isolated=True)
    assert pages.translate("שלום is not READY.") == "\u2068שלום\u2069 未就绪。"
    assert Sentences(CATALOGUE).translate("שלום is not READY.") == "שלום 未就绪。"


@pytest.mark.parametrize(
    ("header", "catalogue"),
    [
        ("", ""),
        ("*", ""),
        ("ja", "ja_JP"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh_CN"),
        ("fr-FR, fr;q=0.9, ko;q=0.7, ja;q=0.8", "ja_JP"),
        ("en, ja;q=0.9", ""),
        ("zh-TW", ""),
        ("zh-TW, zh-Hans;q=0.5", "zh_CN"),
        ("ja;q=0, kok;q=0.5", ""),
        ("ja;q=x, ;;, ko;q=0.1", "ko_KR"),
        ("de," * 100_000 + "ja", ""),
    ],
)
def test_the_language_of_a_request_is_the_most_wanted_one_that_there_is(header, catalogue):
    assert accepted(header) == catalogue


def test_of_an_answer_only_what_is_for_people_is_translated():
    answer = {
        "name": "Install JAX",
        "meaning": "8 chips · 4 hosts",
        "problem": {"message": "my-tpu is not READY. Try again later.", "reason": "CONFLICT"},
        "steps": [{"title": "Install JAX", "state": "running"}],
        "log": ["creating my-tpu", "no such file"],
        "lines": [{"text": "Try again later."}],
        "content": {"title": "Try again later."},
        "hosts": {3: None},
    }
    before = json.dumps(answer)
    assert in_language(answer, Sentences(CATALOGUE)) == answer | {
        "meaning": "8 个芯片 · 4 台主机",
        "problem": {"message": "my-tpu 未就绪。请稍后重试。", "reason": "CONFLICT"},
        "steps": [{"title": "安装 JAX", "state": "running"}],
        "log": ["正在创建 my-tpu", "no such file"],
    }
    assert json.dumps(answer) == before


def test_each_field_that_is_translated_is_one_of_a_model():
    fields = {
        name
        for model in vars(models).values()
        if isinstance(model, type) and issubclass(model, msgspec.Struct)
        for name in model.__struct_fields__
    }
    assert fields >= SENTENCES
