"""What runs as a coding agent: what is named, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from refusals import raises

from jupyter_tpu.agent_token import AGENT_VARIABLE
from jupyter_tpu.cli import root
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.magics import grammar, kernel_grammar
from jupyter_tpu.mcp import results, tools
from jupyter_tpu.mcp.results import tool
from jupyter_tpu.terminal import agent_access
from jupyter_tpu.terminal.agent_access import CELLS, COMMANDS, MAGICS, TOOLS
from jupyter_tpu.terminal.grammar import Command, Group, command

GRAMMARS = (
    (root.tpu, "jupyter tpu", COMMANDS),
    (grammar.line, "%tpu", MAGICS),
    (kernel_grammar.cell, "%%tpu", CELLS),
)


@pytest.fixture
def as_agent(monkeypatch: pytest.MonkeyPatch, own_data: Path) -> None:
    monkeypatch.setenv(AGENT_VARIABLE, "1")


def commands_of(top: click.Command, name: str) -> Iterator[click.Context]:
    """The context of each command in a grammar, as if its words were typed, without options."""

    def below(ctx: click.Context) -> Iterator[click.Context]:
        if not isinstance(ctx.command, click.Group):
            yield ctx
            return
        for word in ctx.command.list_commands(ctx):
            inner = ctx.command.get_command(ctx, word)
            assert inner is not None
            yield from below(click.Context(inner, parent=ctx, info_name=word))

    yield from below(click.Context(top, info_name=name))


def test_each_command_and_magic_asks_whether_agents_may_run_it(as_agent, monkeypatch):
    for top, name, named in GRAMMARS:
        open_words = set()
        for ctx in commands_of(top, name):
            ran: list[bool] = []
            monkeypatch.setattr(ctx.command, "callback", lambda ran=ran, **_: ran.append(True))
            assert isinstance(ctx.command, Command), ctx.command_path
            words = agent_access.words_of(ctx)
            if words in named:
                ctx.command.invoke(ctx)
                open_words.add(words)
            else:
                with raises(Reason.PERMISSION, f"may not run `{ctx.command_path}`"):
                    ctx.command.invoke(ctx)
            assert bool(ran) == (words in named), ctx.command_path
        assert open_words == named.keys() - {"compile"}  # the magic's own word, no command


def test_a_command_an_option_and_a_tool_that_nobody_has_named_are_closed_to_agents(
    as_agent, monkeypatch
):
    ran: list[str] = []

    @command("new")
    @click.option("--json", is_flag=True)
    @click.option("--newest", is_flag=True)
    def new(json: bool, newest: bool) -> None:
        ran.append("new")

    top = Group("jupyter tpu", commands=[new])

    def run(*words: str) -> None:
        with top.make_context("jupyter tpu", [*words]) as ctx:
            top.invoke(ctx)

    with pytest.raises(TPUError, match="may not run `jupyter tpu new`"):
        run("new")
    monkeypatch.setattr(agent_access, "COMMANDS", {"new": agent_access.Access()})
    run("new", "--json")
    with pytest.raises(TPUError, match="may not run `jupyter tpu new --newest`"):
        run("new", "--newest")
    assert ran == ["new"]
    monkeypatch.delenv(AGENT_VARIABLE)
    run("new", "--newest")
    assert ran == ["new", "new"]

    async def tpu_new() -> None: ...

    tool("read-only")(tpu_new)
    assert "tpu_new" not in results.TOOLS


def test_each_name_and_option_of_the_tables_exists():
    for top, name, named in GRAMMARS:
        options = {
            agent_access.words_of(ctx): {
                parameter.opts[0]
                for parameter in ctx.command.get_params(ctx)
                if isinstance(parameter, click.Option)
            }
            for ctx in commands_of(top, name)
        }
        for words, access in named.items():
            if words != "compile":
                assert access.options <= options[words], words
    assert [name.partition(":")[2] for name in tools.tools()] == [*TOOLS]


@pytest.mark.parametrize(
    "words",
    [
        ("server", "--json"),
        ("server", "--start"),
        ("ssh", "my-tpu"),
        ("ssh", "my-tpu", "--command", "cat /etc/passwd"),
        ("ssh-config",),
        ("ssh-config", "--write"),
        ("ssh-key", "describe"),
        ("budget", "token"),
        ("budget", "set", "agent", "--day", "1000"),
        ("token", "pass", "HF_TOKEN"),
        ("connect", "my-tpu", "--pass-env", "HF_TOKEN"),
        ("job", "start", "my-tpu", "--pass-env", "HF_TOKEN", "--", "env"),
        ("env", "lock", "my-tpu", "--output", "file"),
        ("kernel", "remove", "my-tpu"),
        ("emulator",),
        ("vscode",),
    ],
)
def test_what_shows_or_passes_a_persons_secrets_does_not_run_for_agents(words, as_agent, capsys):
    """Before anything is looked for: no server, and no cloud."""
    assert root.run(words) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "A coding agent may not run `jupyter tpu" in printed.err


def test_openssh_of_an_agent_gets_no_connection_by_our_entries(as_agent, capsys, monkeypatch):
    from jupyter_tpu.cli import proxy

    monkeypatch.setattr("sys.argv", ["proxy", "my-tpu", "--project", "p", "--zone", "us-west4-a"])
    assert proxy.main() == 1
    assert "A coding agent may not run `ssh my-tpu`" in capsys.readouterr().err
