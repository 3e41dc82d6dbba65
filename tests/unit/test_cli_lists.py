"""What lists show: gcloud's filters, order, limits and formats, the same for every list."""

import contextlib
import csv
import io
import json
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.cli.root import tpu
from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.fleet.models import TPU, Cost, Host, TPUList
from jupyter_tpu.magics.grammar import line as magics
from jupyter_tpu.terminal.grammar import CONTEXT, Command
from jupyter_tpu.terminal.printing import list_options, print_list
from jupyter_tpu.terminal.selection import parse_filter, path, sorted_by


def node(name: str, **facts: Any) -> TPU:
    standard = {"zone": "us-west4-a", "project": "p", "type": "v5litepod-8", "state": "READY"}
    return TPU(name=name, **{**standard, **facts})


TPUS = [
    node(
        "ana",
        chips=8,
        cost=Cost(usd_per_hour=9.6),
        labels={"team-a": "x"},
        hosts=[
            Host(index=0, external_address="1.2.3.4"),
            Host(index=1, external_address="5.6.7.8"),
        ],
    ),
    node("ben", chips=128, zone="europe-west4-b", state="STOPPED", cost=Cost(usd_per_hour=None)),
    node("cleo", chips=16, cost=Cost(usd_per_hour=0.0), owner="Ana, of the team"),
]


def names_where(test: str) -> list[str]:
    return [tpu.name for tpu in TPUS if parse_filter(test)(tpu)]


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("state=READY", "ana cleo"),
        ("state=ready", "ana cleo"),  # gcloud's compares without case
        ("state!=READY", "ben"),
        ("chips>8", "ben cleo"),
        ("chips>=16 AND chips<100", "cleo"),
        ("chips<=16", "ana cleo"),
        ("chips=8.0", "ana"),
        ("zone:us-*", "ana cleo"),
        ("zone:west4", "ana ben cleo"),
        ("zone~^us-.*a$", "ana cleo"),
        ("zone!~^us", "ben"),
        ("name=(ana ben)", "ana ben"),
        ("name:(an* OR cl*)", "ana cleo"),
        ("NOT state=READY", "ben"),
        ("-state:READY", "ben"),
        ("state=READY zone:us-*", "ana cleo"),  # nothing between means AND
        ("(chips=8 OR chips=128) AND state=READY", "ana"),
        ("cost.usd_per_hour>1", "ana"),
        ("cost.usdPerHour>1", "ana"),
        ("cost.usd_per_hour:*", "ana cleo"),
        ("labels.team-a=x", "ana"),
        ("labels:team-a", "ana"),
        ("hosts[0].external_address=1.2.3.4", "ana"),
        ("hosts[].external_address=5.6.7.8", "ana"),
        ("hosts[7].external_address=5.6.7.8", ""),
        ("owner='Ana, of the team'", "cleo"),
        ('owner="ana, of the team"', "cleo"),
        ("emulated=true", ""),
        ("emulated=false", "ana ben cleo"),
    ],
)
def test_a_filter_means_what_it_means_for_gcloud(test, names):
    assert names_where(test) == names.split()


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("", "not understood at its end"),
        ("ready", "not understood at 'ready'"),
        ("state=", "not understood at its end"),
        ("(state=READY", "not understood at its end"),
        ("state=READY)", r"not understood at '\)'"),
        ("name=(a", "not understood at its end"),
        ("state=READY AND chips>8 OR chips<4", "AND and OR without parentheses"),
        ("name~(", "not understood"),
        ("name~*", "wrong regular expression"),
        ("nme=x", "There is no field nme. Its fields: name, zone, project"),
        ("cost.euro=1", "There is no field cost.euro. Its fields: "),
        ("name.first=x", "There is no field name.first"),
    ],
)
def test_what_is_not_understood_is_one_clear_sentence(test, message):
    with pytest.raises(InvalidInput, match=message):
        names_where(test)


@given(st.text(alphabet="ab=()\"' ANDOR~:!<>[].*-", max_size=30))
def test_any_text_is_a_filter_or_a_sentence(text):
    with contextlib.suppress(InvalidInput):
        names_where(text)


def test_the_order_is_by_several_fields_and_what_has_no_value_is_last():
    def names(keys: str) -> list[str]:
        return [tpu.name for tpu in sorted_by(TPUS, keys)]

    assert names("~chips") == ["ben", "cleo", "ana"]
    assert names("zone,~name") == ["ben", "cleo", "ana"]
    assert names("cost.usd_per_hour") == ["cleo", "ana", "ben"]
    assert names("~cost.usd_per_hour") == ["ana", "cleo", "ben"]
    with pytest.raises(InvalidInput, match="is not the name of a field"):
        names("a b")
    assert path("hosts[].index").of(TPUS[0]) == [0, 1]


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    @click.command("list", cls=Command, context_settings=CONTEXT)
    @list_options
    def command() -> None:
        listed = TPUList(tpus=TPUS)
        print_list(listed, lambda chosen: " ".join(tpu.name for tpu in chosen.tpus), "tpus")

    with command.make_context("list", list(words)) as context:
        command.invoke(context)
    output = capsys.readouterr()
    return output.out + output.err


def test_a_list_is_printed_in_the_format_that_was_asked_for(capsys):
    assert shown(capsys) == "ana ben cleo\n"
    assert shown(capsys, "--format", "text", "--limit", "2") == "ana ben\n"
    assert shown(capsys, "--sort-by", "~name") == "cleo ben ana\n"
    assert json.loads(shown(capsys, "--json", "--limit", "1"))["tpus"][0]["name"] == "ana"
    assert shown(capsys, "--json") == shown(capsys, "--format", "json")
    assert "\n- name: ana\n  zone: us-west4-a\n" in shown(capsys, "--format=yaml")
    values = shown(capsys, "--format", "value(name,hosts[].external_address,emulated)")
    assert values == "ana\t1.2.3.4;5.6.7.8\tFalse\nben\t\tFalse\ncleo\t\tFalse\n"
    assert shown(capsys, "--format", "csv(name, owner)", "--filter", "chips=16") == (
        'name,owner\ncleo,"Ana, of the team"\n'
    )
    assert shown(capsys, "--format", "csv[no-heading](name)", "--limit=1") == "ana\n"
    assert shown(capsys, "--format", "table(name,cost.usd_per_hour)").splitlines()[:2] == [
        "NAME  USD_PER_HOUR",
        "ana   9.6",
    ]
    heads = next(csv.reader(io.StringIO(shown(capsys, "--format", "csv"))))
    assert {"name", "zone", "state", "chips"} <= {*heads}
    assert "hosts" not in heads
    assert shown(capsys, "--filter", "name=x") == "Nothing in the list matches --filter.\n"
    assert json.loads(shown(capsys, "--filter", "name=x", "--json"))["tpus"] == []
    assert shown(capsys, "--filter", "name=x", "--format", "value(name)") == ""


@pytest.mark.parametrize("format", ["xml", "value", "value()", "json(", "", "VALUE(name)"])
def test_a_format_that_is_not_known_is_refused(format, capsys):
    with pytest.raises(click.BadParameter, match=r"is not supported|needs fields"):
        shown(capsys, "--format", format)


def lists(group: click.Group, words: str = "") -> dict[str, click.Command]:
    context, commands = click.Context(group), {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            commands |= lists(command, f"{words}{name} ")
        elif command is not None and name in ("list", "packages", "usage"):
            commands[f"{words}{name}"] = command
    return commands


@pytest.mark.parametrize("group", [tpu, magics], ids=["jupyter tpu", "%tpu"])
def test_every_list_has_the_same_options_in_terminal_and_notebook(group):
    commands = lists(group)
    assert {"list", "hunt list", "job list", "tunnel list", "chips list", "token list"} <= {
        *commands
    }
    for words, command in commands.items():
        options = {name for param in command.params for name in param.opts}
        assert {"--filter", "--sort-by", "--limit", "--format", "--json"} <= options, words
