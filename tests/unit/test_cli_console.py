"""What a person sees and types: tables, colours, progress, complaints of one line, the grammar."""

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import raises

from jupyter_tpu.cli import main
from jupyter_tpu.cli.root import COMMANDS, tpu
from jupyter_tpu.commands.completion import VARIABLE
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.models import (
    TPU,
    Cost,
    FleetStatus,
    LoopStatus,
    Operation,
    Problem,
    Step,
    TPUList,
    Tunnel,
)
from jupyter_tpu.terminal.grammar import Argument
from jupyter_tpu.terminal.operations import progress_line, raise_failure
from jupyter_tpu.terminal.printing import complain
from jupyter_tpu.terminal.questions import confirm
from jupyter_tpu.terminal.tables import (
    problem_text,
    state_text,
    status_problems,
    table,
    tpu_table,
    tunnel_table,
)
from jupyter_tpu.terminal.waiting import ProgressPrinter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def operation(message: str, progress: float | None = None, **other: object) -> Operation:
    fields = {"kind": "connect", "message": message, "progress": progress, **other}
    return Operation(id="1", tpu="t", **fields)


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(
            st.lists(
                st.text("abc ·", min_size=1, max_size=9).map(str.strip), min_size=n, max_size=n
            ),
            min_size=1,
            max_size=5,
        )
    )
)
def test_columns_of_a_table_begin_at_the_same_place_in_each_row(rows):
    heads = [f"HEAD{i}" for i in range(len(rows[0]))]
    lines = table(heads, rows).split("\n")
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    if not kept:
        return
    for i in kept:
        start = lines[0].index(f"HEAD{i}")
        for row, line in zip(rows, lines[1:], strict=True):
            assert line[start : start + len(row[i])] == row[i]
            assert start == 0 or line[start - 2 : start].strip() == ""


def test_a_column_without_content_is_left_out():
    assert table(("A", "B", "C"), [("1", "", "2"), ("3", "", "4")]) == "A  C\n1  2\n3  4"


def test_colours_are_for_terminals_whose_owner_wants_them(monkeypatch):
    def shown(stream: io.StringIO, **variables: str) -> str:
        with monkeypatch.context() as patch:
            patch.delenv("NO_COLOR", raising=False)
            for name, value in {"TERM": "xterm", "COLUMNS": "80", **variables}.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdout", stream)
            return table(("STATE",), [(state_text("READY"),)]).splitlines()[1]

    assert shown(Terminal()).startswith("\x1b[32mREADY\x1b[0m")
    assert shown(io.StringIO()) == "READY"
    assert "32m" not in shown(Terminal(), NO_COLOR="1")
    assert shown(Terminal(), TERM="dumb") == "READY"


@pytest.mark.parametrize(
    ("state", "words"), [("taken", "local port in use"), ("elsewhere", "open in another process")]
)
def test_the_state_of_a_tunnel_is_in_words(state, words):
    shown = Tunnel(id="1", tpu="t", zone="z", host=0, port=6, local_port=6, state=state)
    listed = tunnel_table([shown])
    assert words in listed
    assert state not in listed


def test_a_table_is_the_same_on_a_narrow_terminal(monkeypatch):
    rows = [("1", "word " * 30 + "end")]
    plain = table(("A", "B"), rows)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert re.sub(r"\x1b\[[\d;]*m", "", table(("A", "B"), rows)) == plain
    cut = re.sub(r"\x1b\[[\d;]*m", "", table(("A", "B"), rows, cut_last=True)).split("\n")
    assert cut[1] == plain.split("\n")[1][:39].rstrip() + "…"
    assert [len(line) <= 40 for line in cut] == [True, True]


@pytest.mark.parametrize("emulated", [True, False])
def test_a_list_of_tpus_fits_into_80_columns_of_a_terminal(emulated, monkeypatch):
    tpu = TPU(
        name="my-tpu",
        project="p",
        zone="europe-west4-a",
        type="v5litepod-16",
        meaning="16 chips · 4 hosts · 256 GB HBM",
        state="READY",
        kernels=2,
        emulated=emulated,
        cost=Cost(usd_per_hour=24.96, usd=75.0, since="2026-01-01T00:00:00Z"),
    )

    def lines() -> list[str]:
        text = re.sub(r"\x1b\[[\d;]*m", "", tpu_table(TPUList(tpus=[tpu])))
        return text.split("\n")[:2]

    piped = lines()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "160")
    assert lines() == piped
    monkeypatch.setenv("COLUMNS", "80")
    head, row = lines()
    assert len(row) <= 80
    kept = ["NAME", "ZONE", "TYPE", "STATE", "CONNECTION"]
    assert "MEANING" in piped[0]
    assert "MEANING" not in head
    for text in (*kept, "emulated" if emulated else "$24.96"):
        assert text in head + row


def test_a_complaint_is_one_line_whatever_it_says(capsys):
    complain("it failed:\n  because\tof\r\nthis")
    assert capsys.readouterr().err == "jupyter tpu: it failed: because of this\n"


def test_progress_is_a_line_per_change_where_there_is_no_terminal():
    stream = io.StringIO()
    progress = ProgressPrinter(stream)
    progress.resume()
    for message, part in (("Looking", 0.1), ("Looking", 0.2), ("Installing", 0.3)):
        progress.show(operation(message, part))
    progress.show(operation("Done", 1.0, state="done"))
    progress.pause()
    assert stream.getvalue() == "t: Looking\nt: Installing\n"


def test_progress_is_one_line_with_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    progress = ProgressPrinter(stream)
    progress.resume()
    progress.show(operation("[Looking]"))
    progress.pause()  # draws it once more, and removes it
    first = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue())
    assert re.search(r"━ +0:00:00 t: \[Looking\]", first)
    assert stream.getvalue().endswith("\x1b[2K")  # the line is empty
    progress.resume()
    progress.show(operation("Installing " + "x" * 80, 0.5))
    progress.pause()
    second = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue())
    assert re.search(r" 50% 0:00:\d\d t: Installing xxx", second)
    assert max(map(len, re.split(r"[\r\n]+", second))) <= 60


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_progress_prints_each_line_of_the_log_once_if_that_is_wanted(stream, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    progress = ProgressPrinter(stream, verbose=True)
    progress.resume()
    for log in (["a"], ["a", "b [x]"], ["b [x]", "b [x]", "c"], ["b [x]", "b [x]", "c"]):
        progress.show(operation("Setting up", 0.5, log=log))
    progress.pause()
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue())
    lines = [line.strip() for line in re.split(r"[\r\n]+", text)]
    assert [line for line in lines if line in ("a", "b [x]", "c")] == ["a", "b [x]", "b [x]", "c"]


def test_the_log_of_a_hunt_is_shown_and_what_it_says_only_once():
    stream = io.StringIO()
    progress = ProgressPrinter(stream)
    log = ["Attempt 1: Trying v5litepod-1", "Attempt 1 failed: No capacity."]
    progress.show(operation("Trying v5litepod-1", kind="hunt", log=log[:1]))
    progress.show(operation("Checking whether there is a TPU", kind="hunt", log=log[:1]))
    progress.show(operation("Attempt 1 failed: No capacity.", kind="hunt", log=log))
    assert stream.getvalue() == f"{log[0]}\nt: Checking whether there is a TPU\n{log[1]}\n"


@pytest.mark.parametrize("command", ["connect", "create", "env create", "env add"])
def test_commands_that_install_have_verbose(command, capsys):
    assert main([*command.split(), "--help"]) == 0
    assert "--verbose" in capsys.readouterr().out


def test_progress_says_on_how_many_hosts_a_step_is_done():
    step = Step(title="Installing JAX", state="running", hosts=4, hosts_done=2)
    assert progress_line(operation("Installing JAX", steps=[step])) == (
        "t: Installing JAX (2 of 4 hosts)"
    )


def test_where_nobody_can_be_asked_the_answer_is_no(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with raises(Reason.CONFLICT, r"Really\? Add --yes\."):
        confirm("Really?", "Add --yes.")


def test_when_to_try_again_is_shown_and_when_it_is_tried_again(capsys):
    problem = Problem(message="Too many.", reason=Reason.RATE_LIMITED, retry_after=29.5)
    complain(str(problem.to_error()))
    assert capsys.readouterr().err == "jupyter tpu: Too many. Try again in 30 s.\n"
    assert problem_text(problem) == "Too many. Trying again in 30 s."
    ended = operation("", state="failed", problem=problem)
    with pytest.raises(TPUError, match=r"^Too many\. Try again in 30 s\.$"):
        raise_failure(ended)


def test_what_fails_in_the_background_is_reported_while_it_fails():
    status = FleetStatus(
        storage=Problem(message="The disk is full.", reason=Reason.DISK_FULL),
        loops=[
            LoopStatus(name="poll of Google", failing=True, last_error="OSError: no space"),
            LoopStatus(name="TPUs", failures=3, last_error="OSError: no space"),
        ],
    )
    assert status_problems(status) == [
        "The disk is full.",
        "A background task (poll of Google) fails: OSError: no space. It is restarted "
        "automatically.",
    ]


def failing(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and the one line of a command that fails."""
    code = main(words)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("jupyter tpu: ")
    assert printed.err.count("\n") == 1
    return code, printed.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("frobnicate", "No such command 'frobnicate'. (see `jupyter tpu --help`)"),
        ("conect t", "No such command 'conect'. Did you mean connect"),
        ("rm t", "No such command 'rm'. Did you mean delete?"),
        ("status", "No such command 'status'. Did you mean list or describe?"),
        ("kernel lst", "No such command 'lst'. Did you mean list?"),
        ("create", "Missing argument 'NAME'. (see `jupyter tpu create --help`)"),
        ("create a", "Missing option '--type' / '--accelerator-type'"),
        ("create a --type v4-8 --zonk x", "No such option"),
        ("create a --acelerator-type v4-8", "Did you mean --accelerator-type?"),
        ("list --format xml", "'xml' is not supported. Use json, yaml, csv(FIELDS), value(FIELDS)"),
        ("describe z-a/t --zone z-b", "z-a/t is not in the zone z-b, which --zone gives."),
        ("kernel list --zone z-b", "--zone needs a TPU's NAME."),
        ("ssh t --command ls -- df", "--command can't be used with another command"),
        ("kernel", "Missing command. Use one of: list, stop, take, add, remove, warm"),
        ("tunnel", "Missing command. Use one of: open, list, close"),
        ("tunnel my-tpu", "No such command 'my-tpu'. Use one of: open, list, close."),
        ("tunnel my-tpu http", "'http' is not PORT or PORT:LOCAL"),
        ("tunnel opne my-tpu 6006", "No such command 'opne'. Did you mean open?"),
        ("tunnel rm 7007", "No such command 'rm'. Did you mean close?"),
        ("tunnel open my-tpu eighty", "'eighty' is not PORT or PORT:LOCAL"),
        ("app my-tpu", "No such command 'my-tpu'"),
        ("describe", "Missing argument 'NAME'"),
        ("describe a b", "unexpected extra argument"),
        ("emulator --port many", "'many' is not a valid integer"),
        ("emulator --port 99999", "99999 is not in the range"),
        ("ssh-config --write --remove", "Give only one of"),
        ("completion tcsh", "'tcsh' is not one of"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(words, complaint, capsys):
    code, line = failing(words.split(), capsys)
    assert code == 2
    # Versions of click quote more or less.
    assert complaint.replace("'", "") in line.replace("'", "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("vscode /nowhere/at/all", "The folder /nowhere/at/all does not exist"),
        ("connect t --requirements /nowhere", "Can't read /nowhere: No such file"),
        ("api GET http://example.org/", "is a URL; a path is needed"),
        ("api GET tpus/../../api", "is not a path"),
        ("api POST tpus --data {", "--data is not JSON"),
        ("api POST tpus --data @/nowhere", "Can't read /nowhere"),
        ("api GET tpus", "No Jupyter server of yours is running"),
        ("kernel remove nothing", "nothing has no kernel of an environment default here"),
    ],
)
def test_a_command_that_fails_is_one_line_and_exit_code_1(words, complaint, capsys):
    code, line = failing(words.split(), capsys)
    assert code == 1
    assert complaint in line


def all_commands() -> list[tuple[str, click.Command]]:
    """Every command and its words, those of groups too."""
    context = click.Context(tpu)
    commands = []
    for name in tpu.list_commands(context):
        command = tpu.get_command(context, name)
        assert command is not None
        commands.append((name, command))
        if isinstance(command, click.Group):
            commands += [
                (f"{name} {verb}", subcommand) for verb, subcommand in command.commands.items()
            ]
    return commands


def test_every_command_has_a_help_of_its_own(capsys):
    for words, _ in all_commands():
        assert main([*words.split(), "--help"]) == 0
        help = capsys.readouterr().out
        assert help.startswith(f"Usage: jupyter tpu {words} ")
        assert "\b" not in help, words
        assert help.count("Arguments:") <= 1, words


#: Options that do nothing if they are not given: they have no default to show.
WITHOUT_DEFAULT = {"between_hosts", "data", "requirements"}


def test_every_parameter_is_explained_and_shows_its_default():
    for words, command in all_commands():
        context = click.Context(command)
        for parameter in command.get_params(context):
            name = f"{words}: {parameter.name}"
            if isinstance(parameter, Argument):
                assert parameter.description, name
            elif isinstance(parameter, click.Option) and not parameter.hidden:
                help = parameter.help or ""
                assert help, name
                optional = not (parameter.required or parameter.is_flag or parameter.multiple)
                if optional and parameter.name not in WITHOUT_DEFAULT:
                    has_default = parameter.get_default(context) is not None
                    assert has_default or "[default: " in help, name


def parsed(*words: str) -> dict[str, Any]:
    """The parameters that a command is called with."""
    context = click.Context(tpu)
    command, rest = tpu, list(words)
    while isinstance(command, click.Group):
        _, subcommand, rest = command.resolve_command(context, rest)
        assert subcommand is not None
        command = subcommand
    return command.make_context("command", rest).params


def test_options_reach_their_command():
    words = "create t --type v4-8 --zone z --spot --network n --subnetwork s --connect --no-wait"
    args = parsed(*words.split(), "--packages", "flax", "optax", "--packages", "einops")
    assert (args["name"], args["accelerator_type"], args["zone"]) == ("t", "v4-8", "z")
    assert args["fields"] == {"network": "n", "subnetwork": "s"}
    assert args["spot"] is True
    assert (args["then_connect"], args["no_wait"], args["environment"]) == (True, True, "default")
    assert args["content"]["packages"] == ["flax", "optax", "einops"]


def test_the_habits_of_gcloud_work():
    assert parsed("create", "t", "--accelerator-type", "v4-8")["accelerator_type"] == "v4-8"
    for words in (["--json"], ["--format", "json"], ["--format=yaml"]):
        assert parsed("describe", "t", *words)["as_json"] is True
    for words in ([], ["--format", "text"]):
        assert parsed("describe", "t", *words)["as_json"] is False
    assert parsed("ls", "--zone", "z") == parsed("list", "--zone", "z")
    for word in ("--quiet", "-q", "--yes", "-y"):
        assert parsed("delete", "t", word)["yes"] is True
        assert parsed("start", "t", word)["names"] == ("t",)
    assert parsed("delete", "t", "u", "--zone", "z")["names"] == ("z~t", "z~u")
    assert parsed("describe", "--zone=z", "t")["name"] == "z~t"
    assert parsed("describe", "z/t", "--zone=z")["name"] == "z/t"
    assert parsed("connect", "t", "--async")["no_wait"] is True
    assert parsed("create", "t", "--type", "v4-8", "--preemptible")["spot"] is True
    assert parsed("ssh", "t", "--zone", "z", "--command", "ls -l")["remote_command"] == "ls -l"
    assert parsed("ssh", "t", "--worker", "all", "--command=ls")["number"] == "all"


def test_every_command_on_a_tpu_takes_its_zone_and_project():
    for words, command in all_commands():
        parameters = {parameter.name for parameter in command.params}
        if parameters & {"name", "names"} and not isinstance(command, click.Group):
            assert {"zone", "project"} <= parameters, words


def test_a_tpu_may_be_called_like_a_verb():
    assert parsed("tunnel", "open", "list", "6006")["name"] == "list"
    assert parsed("app", "open", "close", "80")["name"] == "close"
    assert parsed("describe", "ls")["name"] == "ls"


def test_the_short_form_of_a_tunnel_and_an_app_opens_it():
    args = parsed("tunnel", "my-tpu", "6006", "8888:7007", "--worker", "2")
    assert (args["name"], args["fields"]["host"]) == ("my-tpu", 2)
    assert args["ports"] == ((6006, None), (8888, 7007))
    assert parsed("app", "my-tpu", "80", "--path", "/x")["fields"]["path"] == "/x"
    assert parsed("tunnel", "remove", "7007")["ids"] == ("7007",)


def test_a_kernel_is_shut_down_by_the_word_of_jupyter_too():
    for verb in ("end", "shutdown", "stop"):
        assert parsed("kernel", verb, "t", "1b67")["kernel"] == "1b67"


def test_what_follows_the_name_is_for_ssh_but_for_our_options():
    args = parsed("ssh", "t", "--worker", "1", "--mosh", "--", "-L", "1:h:1", "--", "ls", "--help")
    assert (args["name"], args["number"], args["mosh"]) == ("t", 1, True)
    assert args["args"] == ("--", "-L", "1:h:1", "--", "ls", "--help")
    args = parsed("ssh", "--worker=2", "t", "grep", "--worker", "x")
    assert (args["name"], args["number"]) == ("t", 2)
    assert args["args"] == ("grep", "--worker", "x")


def completions(*words: str, start: str = "") -> list[str]:
    from click.shell_completion import ShellComplete

    completer = ShellComplete(tpu, {}, "jupyter-tpu", VARIABLE)
    return [item.value for item in completer.get_completions(list(words), start)]


def test_commands_options_and_types_are_completed():
    assert completions(start="de") == ["describe", "delete", "detach"]
    assert completions("tunnel") == ["open", "list", "close"]
    assert "--packages" in completions("connect", "t", start="--p")
    for option in ("--type", "--accelerator-type"):
        assert "v5litepod-8" in completions("create", "t", option, start="v5lite")
    assert "v2-alpha-tpuv6e" in completions("create", "t", "--version", start="v2-")


@pytest.mark.parametrize("words", ["create t", "list", "describe", "delete t", "ssh"])
def test_zones_and_the_values_of_options_are_completed(words):
    assert completions(*words.split(), "--zone", start="us-w") == ["us-west1-c", "us-west4-a"]
    if words != "ssh":
        assert completions(*words.split(), "--format") == ["json", "yaml", "csv", "text"]
    assert completions("ssh", "t", "--worker", start="a") == ["all"]


def test_bash_completes_through_jupyter_and_leaves_its_other_commands_alone(capsys, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(
        "before() { COMPREPLY=(lab notebook); }; complete -F before jupyter\n"
        + capsys.readouterr().out
        + """
complete_words() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    $(complete -p "$1" | sed -nE 's/.* -F ([^ ]+) .*/\\1/p') "$1" "${@: -1}" "${@: -2:1}"
    echo "${COMPREPLY[*]}"
}
complete_words jupyter-tpu tunnel ""
complete_words jupyter tpu tunnel ""
complete_words jupyter tpu des
complete_words jupyter l
"""
    )
    beside = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", str(script)],
        env={**os.environ, **beside},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "open list close", "open list close", "describe", "lab notebook",
    ]  # fmt: skip


def help_text(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


def test_the_help_has_six_parts_with_each_command_in_one_line(capsys):
    lines = help_text("--help", capsys=capsys).splitlines()
    parts = [line for line in lines if line.endswith(":") and line[0] != " "][1:]
    assert parts == [
        "TPUs:",
        "Capacity:",
        "Work on hosts:",
        "Kernels and environments:",
        "Money:",
        "Setup and problems:",
    ]
    for name in COMMANDS:
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.endswith(".")
    assert max(map(len, lines)) <= 80
    assert lines.index("  create        Create a TPU; shows the price first.") < 25


def test_what_is_rare_is_in_help_all_only(capsys):
    short = help_text("create", "--help", capsys=capsys)
    whole = help_text("create", "--help-all", capsys=capsys)
    for option in ("--type", "--spot", "--connect", "--packages", "--max-idle", "--help-all"):
        assert f" {option}" in short, option
        assert f" {option}" in whole, option
    for option in ("--data-disk", "--setup-script", "--network", "--labels"):
        assert f" {option}" not in short, option
        assert f" {option}" in whole, option
    assert short.count("\n") <= 80
    assert "--help-all" not in help_text("list", "--help", capsys=capsys)


def test_words_of_other_tools_lead_to_the_command():
    assert parsed("scp", "a", "t:")["paths"] == ("a", "t:")
    assert parsed("exec", "t", "--", "ls") == parsed("run", "t", "--", "ls")
    assert parsed("logs", "t")["id"] is None
    assert parsed("login", "t")["name"] == "t"
    assert parsed("guard", "show", "t") == parsed("guard", "describe", "t")
    assert parsed("job", "remove", "t", "1") == parsed("job", "delete", "t", "1")


@pytest.mark.parametrize(
    "words",
    [
        "stop t", "delete t", "disconnect t", "detach t", "kernel stop t k", "kernel take t k",
        "job stop t j", "job delete t j", "hunt stop t", "queued delete t", "operation cancel o",
        "env delete t e", "chips free t",
    ],
)  # fmt: skip
def test_what_ends_work_can_be_agreed_to_on_the_command_line(words):
    assert parsed(*words.split(), "--yes")["yes"] is True
    assert parsed(*words.split(), "-q")["yes"] is True
    assert parsed(*words.split())["yes"] is False
