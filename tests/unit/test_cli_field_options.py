"""Options of commands that are fields of a request: declared there, and the same everywhere."""

from typing import Any

import click
import pytest

from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.fleet.models import NodeOptions, SetGuard, StartJob, SyncProject
from jupyter_tpu.fleet.models.core import seconds_of
from jupyter_tpu.server.openapi import document
from jupyter_tpu.terminal.field_options import options_of
from jupyter_tpu.terminal.grammar import CONTEXT, Command


def command(model: str, *fields: str) -> click.Command:
    @click.command("test", cls=Command, context_settings=CONTEXT)
    @options_of(model, *fields)
    def options(fields: dict[str, Any]) -> None:
        """Its options are looked at; it is not called."""

    return options


def parsed(model: str, *words: str) -> dict[str, Any]:
    given = command(model).make_context("test", list(words)).params["fields"]
    return dict(given)


def help_of(model: str, *fields: str) -> str:
    options = command(model, *fields)
    return " ".join(options.get_help(click.Context(options, **CONTEXT)).split())


def test_options_are_fields_of_the_request_in_the_form_that_it_has():
    words = "--max-idle 2h --max-cost 12.5 --until 2099-01-01T08:00Z --then-delete --notice 10m"
    guard = SetGuard(**parsed("SetGuard", *words.split()))
    assert (guard.idle, guard.max_cost, guard.action, guard.notice) == (7200, 12.5, "delete", 600)
    assert seconds_of(guard.until, "until") == seconds_of("2099-01-01T08:00:00Z", "until")
    words = "--labels a=1,b=2 --labels c=3 --run-for 4h"
    assert parsed("CreateTPU", *words.split()) == {
        "labels": {"a": "1", "b": "2", "c": "3"},
        "run_for": 14_400,
    }
    words = "--scopes a,b --scopes c --data-disk source=d,mode=read-only --shielded-secure-boot"
    options = NodeOptions(**parsed("NodeOptions", *words.split()))
    assert (options.scopes, options.data_disks[0].mode) == (["a", "b", "c"], "read-only")
    assert options.secure_boot
    words = "--metadata ^;^a=1,2;b=x=y --metadata c=3,d=4 --scopes ^::^e,f::g --metadata e=^_^"
    options = NodeOptions(**parsed("NodeOptions", *words.split()))
    assert options.metadata == {"a": "1,2", "b": "x=y", "c": "3", "d": "4", "e": "^_^"}
    assert options.scopes == ["e,f", "g"]
    assert parsed("SyncProject", "--only", "a,b", "c")["only"] == ["a,b", "c"]


def test_what_is_not_given_has_the_default_of_the_field():
    assert SetGuard(**parsed("SetGuard")) == SetGuard()
    assert StartJob(command=["c"], **parsed("StartJob")) == StartJob(command=["c"])
    assert SyncProject(folder="f", **parsed("SyncProject")) == SyncProject(folder="f")
    assert StartJob(command=["c"], **parsed("StartJob", "--env", "")).environment == ""
    assert "queued" not in parsed("StartHunt")
    assert parsed("StartHunt", "--no-queued")["queued"] is False


@pytest.mark.parametrize(
    ("model", "words", "error", "message"),
    [
        ("StartRun", "--timeout 0", InvalidInput, "'0' is not a time limit"),
        ("ProfileTPU", "--port 70000", click.BadParameter, "not in the range 1<=x<=65535"),
        ("SetGuard", "--max-idle 2", InvalidInput, "not a duration"),
        ("CreateTPU", "--labels ^^a=1", InvalidInput, "names no separator"),
        ("CreateTPU", "--labels a", InvalidInput, "--labels 'a' is not KEY=VALUE"),
        ("NodeOptions", "--data-disk a=b", InvalidInput, "is not source=DISK,mode=MODE"),
    ],
)
def test_a_wrong_value_is_refused_as_the_field_says(model, words, error, message):
    with pytest.raises(error, match=message):
        parsed(model, *words.split())


def test_help_shows_the_text_the_default_and_how_a_value_is_typed():
    shown = help_of("SetGuard", "idle", "notice", "max_cost")
    assert "--max-idle TIME Stop it after this time without" in shown
    assert "For example 90m, 2h or 1d." in shown
    assert "--notice TIME Announce it this long before, at most one hour. [default: 5m]" in shown
    assert "--max-cost USD" in shown
    assert "[default: the home folder]" in help_of("StartRun", "cwd")
    assert "[default: 0]" in help_of("SyncProject", "host")


def test_rests_document_has_the_text_of_the_option_with_units_of_the_field():
    schemas = document()["components"]["schemas"]
    fields = schemas["SetGuard"]["properties"]
    assert fields["notice"]["description"] == (
        "Announce it this long before, at most one hour. In seconds."
    )
    assert fields["action"]["description"].startswith('"delete": delete it with its disk')
    cwd = schemas["StartJob"]["properties"]["cwd"]["description"]
    assert cwd.endswith("By default the home folder.")
