"""``jupyter tpu …`` as a person and a script use it: real processes, a real emulator and server."""

import io
import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_shell import COMMAND, LIMIT, Shell, Terminal, nodes, running_server, state_of
from waiting import until

from jupyter_tpu.cli import main
from jupyter_tpu.fleet.money import pricing
from jupyter_tpu.fleet.money.owners import OWNER, own_name
from jupyter_tpu.terminal.times import local_time


@pytest.fixture
def alone(emulator: Any, tmp_path: Path) -> Shell:
    """A shell without any running server."""
    return Shell(tmp_path, **emulator.environment)


@pytest.fixture(scope="module")
def served(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell beside a running server of the same user, on the same cloud."""
    shell = Shell(tmp_path_factory.mktemp("served"), **emulator.environment)
    with running_server(shell):
        yield shell


@pytest.fixture(params=["alone", "served"])
def shell(request: pytest.FixtureRequest) -> Shell:
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["alone", pytest.param("served", marks=pytest.mark.long)])
def either(request: pytest.FixtureRequest) -> Shell:
    """For what the command does by itself, so that one of both is enough in most runs."""
    return request.getfixturevalue(request.param)


# ---- TPUs --------------------------------------------------------------------------------------


def test_a_tpu_is_created_listed_described_stopped_started_and_deleted(shell, name, emulator):
    output = shell.out("create", name, "--type", "v5litepod-4").splitlines()
    assert output[0] == "v5litepod-4 = 4 chips · 1 host · 64 GB HBM (emulated), in us-central1-a"
    assert output[1].startswith("Emulated: costs nothing. A real one: about $4.80 an hour (us-cent")
    assert output[2] == f"{name}: Create the TPU"
    assert f"{name} is ready" in output[3]
    assert state_of(emulator, name) == "READY"

    (row,) = [line for line in shell.out("list").splitlines() if line.startswith(name)]
    assert re.split(r"  +", row) == [
        name, "us-central1-a", "v5litepod-4", "4 chips · 1 host · 64 GB HBM", "READY", "0m",
        "disconnected", "emulated",
    ]  # fmt: skip
    listed = {tpu["name"]: tpu for tpu in shell.json("list", "--json")["tpus"]}
    described = shell.json("describe", name, "--json")
    assert described == listed[name]
    assert (described["emulated"], described["chips"], len(described["hosts"])) == (True, 4, 1)
    cost = described["cost"]
    assert (cost["usd_per_hour"], cost["usd"], cost["list_usd_per_hour"]) == (0, 0, 4.8)
    assert abs(seconds_since(cost["since"]) - seconds_since(described["created"])) < 60
    text = shell.out("describe", name)
    assert f"{name}  (emulated)" in text
    assert "v5litepod-4 = 4 chips · 1 host · 64 GB HBM" in text
    assert described["hosts"][0]["external_address"] in text
    assert "emulated: costs nothing. A real one: about $4.80 an hour (us-central1, on dem" in text

    assert f"Stopped {name}" in shell.out("stop", name)
    assert state_of(emulator, name) == "STOPPED"
    assert shell.json("start", name, "--json")["state"] == "READY"
    assert f"Deleted {name}." in shell.out("delete", name, "--yes")
    assert state_of(emulator, name) == ""
    assert name not in shell.out("list")


def seconds_since(time: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()


@pytest.mark.long
def test_the_logs_of_a_tpu_are_kept_out_of_cloud_logging_and_let_in_again(
    alone, create_tpu, emulator
):
    name = create_tpu(type="v5litepod-1")["name"].rpartition("/")[2]
    exclusions = f"/logging/v2/projects/{emulator.state.project}/exclusions"
    assert "50 GiB of a project are free. More costs $0.50 per GiB" in alone.out(
        "logging", "show", name
    )
    assert f"does not store the logs of {name}" in alone.out("logging", "off", name)
    (made,) = emulator.request("GET", exclusions)["exclusions"]
    assert f'node_id="{name}"' in made["filter"]
    assert not alone.json("logging", "show", name, "--json")["enabled"]
    # In Google's console somebody may disable what was made here.
    path = f"{exclusions}/{made['name']}"
    emulator.request("PATCH", f"{path}?updateMask=disabled", {"disabled": True})
    assert alone.json("logging", "show", name, "--json")["enabled"]
    assert not alone.json("logging", "off", name, "--json")["enabled"]
    assert not emulator.request("GET", path)["disabled"]
    for _ in range(2):
        assert "Cloud Logging stores the logs" in alone.out("logging", "on", name)
    assert emulator.request("GET", exclusions)["exclusions"] == []


def test_a_tpu_that_costs_money_is_created_only_after_its_price_was_agreed_to(
    alone, name, emulator, monkeypatch, capsys
):
    """What the emulator creates costs nothing: here, that is forgotten."""
    decide = pricing.decide
    monkeypatch.setattr(
        pricing, "decide", lambda *given, **more: decide(*given, **{**more, "emulated": False})
    )
    for variable, value in alone.environment.items():
        monkeypatch.setenv(variable, value)
    command = ["create", name, "--type", "v5litepod-8", "--zone", "us-west4-a", "--spot"]
    price = "about $4.08 an hour (us-west4, spot, list price of 2024-12-23)"

    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(command) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"Create {name}, {price}? Add --yes to create it without asking" in captured.err
    assert main([*command, "--max-price", "4"]) == 1
    captured = capsys.readouterr()
    assert "costs about $4.08 an hour" in captured.err
    assert "You allowed at most $4.00 an hour." in captured.err

    keyboard, end = pty.openpty()
    with os.fdopen(end) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        os.write(keyboard, b"n\n")
        assert main([*command, "--json", "--version", "v2-alpha-tpuv6e"]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert (
            "v5litepod-8 = 8 chips · 1 host · 128 GB HBM (emulated), in us-west4-a" in captured.err
        )
        assert f"{price[1:]}. You pay while it is READY, used or not." in captured.err
        assert "v2-alpha-tpuv6e does not fit v5litepod-8: JAX would find no TPU." in captured.err
        assert f"Create {name}? [y/N] " in captured.err
        assert state_of(emulator, name) == ""

        os.write(keyboard, b"y\n")
        assert main(command) == 0
    os.close(keyboard)
    assert capsys.readouterr().out.splitlines()[1].endswith(f"{price[1:]}. You pay while it is "
                                                            "READY, used or not.")  # fmt: skip
    assert state_of(emulator, name) == "READY"

    fault = {"kind": "announce-maintenance", "node": name}
    emulator.request("POST", "/emulator/v1/faults", fault)
    assert main(["describe", name]) == 0
    assert re.search("announced by Google; .* · from 20", capsys.readouterr().out)


def test_a_network_is_set_up_after_a_question_that_shows_each_change(alone, monkeypatch, capsys):
    for variable, value in alone.environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    arguments = ["typed", "--zone", "us-west4-a"]
    rule = "Create the firewall rule jupyter-tpu-ssh-typed: 127.0.0.1/32 may use TCP port 22"

    assert main(["network", "check", *arguments]) == 1
    assert f"to do    {rule}" in capsys.readouterr().out
    assert main(["network", "setup", *arguments]) == 1
    said = capsys.readouterr()
    assert f"to do    {rule}" in said.out
    assert "Add --yes to do it without asking." in said.err
    assert main(["network", "setup", *arguments, "--dry-run"]) == 0
    assert "typed of the project emulated is not set up." in capsys.readouterr().out

    assert main(["network", "setup", *arguments, "--yes"]) == 0
    assert f"done     {rule}" in capsys.readouterr().out
    assert main(["network", "check", *arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["changes"], answer["blocked"], answer["subnetwork"]) == ([], [], "typed")

    assert main(["network", "setup", *arguments, "--source", "0.0.0.0/0", "--yes"]) == 1
    assert "use --anywhere" in capsys.readouterr().err
    assert main(["network", "setup", *arguments, "--anywhere", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "WARNING  Anyone on the internet can try to log in." in said
    assert "jupyter-tpu-ssh-typed: let 0.0.0.0/0 in." in said


def test_grants_prices_and_the_project_are_shown_and_checked(alone, monkeypatch, capsys):
    for variable, value in alone.environment.items():
        monkeypatch.setenv(variable, value)

    def output_of(*command: str, code: int = 0) -> str:
        assert main([*command]) == code
        result = capsys.readouterr()
        return result.out if code == 0 else result.out + result.err

    assert "each TPU is created only after you confirmed its price" in output_of("grant", "list")
    of_grant = ["--type", "v5e", "--zone", "us-west4-a", "--tier", "spot", "--chips", "16"]
    assert "us-west4-a  spot   16     0" in output_of("grant", "add", "trc", *of_grant)
    assert "A grant called trc already exists" in output_of(
        "grant", "add", "trc", *of_grant, code=1
    )
    assert output_of("grant", "remove", "trc") == "Removed the grant trc.\n"
    assert "The grant trc does not exist." in output_of("grant", "remove", "trc", code=1)

    assert "v5e     us-west4         $1.20      $0.51  2024-12-23" in output_of("prices", "list")
    read = output_of("prices", "refresh")
    assert "v5e     us-west4         $1.20      $0.51  20" in read
    assert "2024-12-23" not in read
    assert "Not understood, and left out: TpuV99x in us-west4" in read

    fine = output_of("doctor", "--type", "v5litepod-8", "--zone", "us-west4-a")
    assert "ok       us-west4-a offers v5litepod-8." in fine
    assert "Before a TPU is created: no problem found" in fine
    wrong = ["doctor", "--type", "v5litepod-8", "--zone", "us-west4-a", "--version"]
    assert "PROBLEM  The runtime version tpu-vm-base does not fit v5litepod-8" in output_of(
        *wrong, "tpu-vm-base", code=1
    )
    assert "are for a check without NAME" in output_of("doctor", "x", "--spot", code=1)


def test_tpus_are_queued_listed_described_and_deleted(either, name, faults):
    faults(kind="no-capacity", zone="us-west4-a")
    words = ["--type", "v5litepod-4", "--zone", "us-west4-a", "--spot"]
    output = either.out("queued", "create", name, *words, "--valid-until-duration", "2h")
    assert f"{name} (emulated) is WAITING_FOR_RESOURCES. It waits for capacity.\n" in output
    (row,) = [line for line in either.out("queued", "list").splitlines() if line.startswith(name)]
    assert row.endswith("emulated")
    assert re.split(r"  +", row)[:6] == [
        name, "us-west4-a", "v5litepod-4", "spot", "WAITING_FOR_RESOURCES", name,
    ]  # fmt: skip
    until = either.json("queued", "describe", name, "--json")["valid_until"]
    assert local_time(until) in row
    assert f"Deleted {name}." in either.out("queued", "delete", name, "--yes")
    assert name not in either.out("queued", "list")


def test_without_waiting_the_operation_is_given_and_goes_on_with_all_options(
    either, name, emulator, tmp_path
):
    script, note = tmp_path / "start.sh", tmp_path / "note"
    script.write_text("echo started\n")
    note.write_text("two\nlines, and a comma\n")
    operation = either.json(
        "create", name, "--type", "v4", "--topology", "2x2x1", "--zone", "us-central2-b",
        "--no-wait", "--json", "--labels", "team=vision,use=test", "--tags", "one,two",
        "--description", "for tests", "--startup-script", script, "--metadata", "key=value",
        "--metadata-from-file", f"note={note}",
    )  # fmt: skip
    assert (operation["kind"], operation["tpu"], operation["zone"]) == (
        "create", name, "us-central2-b",
    )  # fmt: skip
    until(lambda: state_of(emulator, name) == "READY")
    (node,) = [node for node in nodes(emulator) if node["name"].endswith(f"/{name}")]
    assert (node["acceleratorType"], node["tags"]) == ("v4-8", ["one", "two"])
    labels = {"team": "vision", "use": "test", OWNER: own_name(either.environment)}
    assert labels.items() <= node["labels"].items()
    metadata = node["metadata"]
    assert (metadata["startup-script"], metadata["key"]) == ("echo started\n", "value")
    assert metadata["note"] == note.read_text()
    described = either.json("describe", name, "--json")
    assert (described["labels"], described["details"]["tags"]) == (node["labels"], node["tags"])
    assert "echo started" not in str(described)
    text = either.out("describe", name)
    assert all(part in text for part in ("one, two", "team=vision, use=test", "for tests"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("create ok --type v4 --topology 3x3x3", "The topology 3x3x3 of v4 is not known"),
        ("create ok --type v4-8 --labels team", "--labels 'team' is not KEY=VALUE"),
        ("create ok --type v4-8 --tags A", "'A' is not a network tag"),
        ("create ok --type v4-8 --data-disk source=d,mode=x", "is not source=DISK,mode=MODE"),
        ("create ok --type v4-8 --spot --reserved", "--spot and --reserved can't be used"),
        ("create ok --type v4-8 --startup-script /none", "Can't read /none"),
        ("create Bad_Name --type v5litepod-4", "The name is not allowed: it must be 1–40 lower"),
        ("create ok --type v5litepod-5", "The TPU type v5litepod-5 does not exist. Did you mean"),
        ("create ok --type v4-8 --zone us-central1-a", "v4-8 is not offered in us-central1-a; it"),
        ("create ok --type v4-8 --zone nowhere-a", "The zone nowhere-a does not exist"),
        ("create ok --type v5litepod-4 --version v1", "The runtime version v1 does not exist"),
        ("create ok --type v5litepod-4 --connect --python 2.7", "JAX needs Python 3.11 or newer"),
        ("create ok --type v5litepod-4 --connect --env ../x", "connect.environment is not allowed"),
        ("create ok --type v4-8 --queued", "--queued needs --until-available"),
        ("create ok --type v4-8 --packages x", "such as --packages, need --connect"),
        ("describe nothing", "The TPU nothing does not exist"),
        ("connect nothing", "The TPU nothing does not exist"),
        ("connect grpc://10.0.0.2:8470", "is the address of a TPU Node, which has no hosts to"),
        ("attach grpc://10.0.0.2:8470", "is the address of a TPU Node, which has no hosts to"),
        ("delete nothing --yes", "The TPU nothing does not exist"),
        ("queued delete nothing", "The queued resource nothing does not exist"),
        ("kernel add nothing", "The TPU nothing does not exist"),
        ("kernel end nothing 1b67", "The TPU nothing does not exist"),
        ("kernel list nothing", "The TPU nothing does not exist"),
        ("kernel warm nothing on", "The TPU nothing does not exist"),
    ],
)
def test_bad_input_is_one_line_and_makes_nothing(
    shell, words, complaint, emulator, monkeypatch, capsys
):
    for variable, value in shell.environment.items():
        monkeypatch.setenv(variable, value)
    assert main(words.split()) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("jupyter tpu: ")
    assert captured.err.count("\n") == 1
    assert complaint in captured.err
    assert state_of(emulator, "ok") == ""


def test_a_name_that_is_taken_is_refused(either, create_tpu):
    existing = create_tpu()["name"].rpartition("/")[2]
    unlike = either.complaint("connect", "0")
    assert "The TPU 0 does not exist. There are: " in unlike
    assert existing in unlike or "more." in unlike
    assert f"A TPU called {existing} already exists in us-central1-a" in either.complaint(
        "create", existing, "--type", "v5litepod-4"
    )


def test_a_key_open_to_others_and_another_host_key_are_one_line_each_and_mended(alone, create_tpu):
    name = create_tpu()["name"].rpartition("/")[2]
    data = Path(alone.environment["JUPYTER_TPU_DATA_DIR"])
    key, known = data / "ssh" / "id_ed25519", data / "known_hosts"
    alone.complaint("connect", name, "--python", "3.99")  # makes the key, pins the host's
    mode = stat.S_IMODE(key.stat().st_mode)
    key.chmod(0o644)
    refused = alone.run("connect", name)
    assert refused.returncode == 1
    assert f"Other users can read the SSH key {key} (mode 0644)" in refused.stderr
    assert f"`chmod 600 {key}`" in refused.stderr
    key.chmod(mode)

    pinned = known.read_text()
    other = key.with_suffix(".pub").read_text().split()[1]
    known.write_text(" ".join([*pinned.split()[:2], other]) + "\n")
    refused = alone.run("connect", name)
    assert refused.returncode == 1
    assert len(set(re.findall(r"SHA256:[\w+/]{43}", refused.stderr))) == 2
    assert refused.stderr.count("\n") == 1
    known.write_text(pinned)
    assert "Python 3.99 is not on the host" in alone.complaint("connect", name, "--python", "3.99")


def test_what_google_refuses_is_one_line(alone, name, faults):
    faults(kind="no-capacity", zone="us-central1-a", count=1)
    done = alone.run("create", name, "--type", "v5litepod-4")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "capacity" in done.stderr
    assert "add --zone - and --until-available to `jupyter tpu create`" in done.stderr
    assert "jupyter tpu hunt start" in done.stderr


def test_no_project_no_credentials_and_no_emulator_are_one_line_each(tmp_path):
    shell = Shell(tmp_path, HOME=str(tmp_path))
    assert "gcloud config set project" in shell.complaint("list")
    shell.environment["CLOUDSDK_CORE_PROJECT"] = "some-project"
    # The metadata server of Google's own machines is asked for credentials, too; here is none.
    shell.environment |= {"NO_GCE_CHECK": "true", "GCE_METADATA_HOST": "127.0.0.1:1"}
    assert "gcloud auth application-default login" in shell.complaint("list")
    shell.environment["JUPYTER_TPU_EMULATOR"] = str(tmp_path / "none.json")
    assert "jupyter tpu emulator" in shell.complaint("list")


def test_the_names_of_tpus_are_completed(either, create_tpu):
    name = create_tpu()["name"].rpartition("/")[2]

    def completed() -> str:
        asked = {"_JUPYTER_TPU_COMPLETE": "bash_complete", "COMP_CWORD": "2"}
        either.environment |= {**asked, "COMP_WORDS": f"jupyter-tpu describe {name[:-2]}"}
        try:
            return either.out()
        finally:
            for variable in (*asked, "COMP_WORDS"):
                del either.environment[variable]

    until(lambda: completed() == f"plain,{name}\n")  # a server lists it a few seconds later


@pytest.mark.long
def test_several_tpus_are_stopped_started_and_deleted_by_one_command(either, create_tpu, emulator):
    first, second = (create_tpu()["name"].rpartition("/")[2] for _ in range(2))
    zone = "--zone=us-central1-a"
    until(lambda: {first, second} <= {t["name"] for t in either.json("list", "--json")["tpus"]})
    assert "The TPU nothing does not exist in us-central1-a" in either.complaint(
        "stop", first, "nothing", zone
    )
    assert state_of(emulator, first) == "READY"  # nothing was begun
    output = either.out("stop", first, second, first, zone)
    assert f"Stopped {first}." in output
    assert f"Stopped {second}." in output
    assert output.count("Stopped") == 2
    either.out("start", second, "--quiet")
    done = either.run("stop", first, second, "--format=json")
    assert done.returncode == 1  # the first one is stopped already
    assert [tpu["name"] for tpu in json.loads(done.stdout)] == [second]
    assert done.stderr.count("\n") == 1
    assert first in done.stderr

    terminal = Terminal(either, "delete", first, second)
    terminal.expect(f"Delete {first} .*, {second} .*\\? .*permanently deletes {second}, its disk")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert (state_of(emulator, first), state_of(emulator, second)) == ("", "")


def test_a_project_that_the_server_does_not_serve_is_reported_and_not_ignored(
    served, create_tpu, emulator
):
    project = emulator.state.project
    name = create_tpu()["name"].rpartition("/")[2]
    until(lambda: name in served.out("list", "--project", project, "--zone", "us-central1-a"))
    assert served.out("list", "--zone", "us-south1-a") == "No TPUs in us-south1-a.\n"
    done = served.run("list", "--project", "another")
    assert done.returncode == 0, done.stderr
    assert "No TPUs" in done.stdout
    assert done.stderr == (
        f"Your Jupyter server works on the project {project}. This command works on another, "
        "without the server.\n"
    )


# ---- questions, Ctrl-C and progress, in a terminal -----------------------------------------------


def test_delete_asks_on_a_terminal_and_refuses_elsewhere(alone, create_tpu, emulator):
    name = create_tpu()["name"].rpartition("/")[2]
    assert "Add --yes" in alone.complaint("delete", name)
    assert state_of(emulator, name) == "READY"

    for answer in ("yikes\n", "\x04"):  # \x04: Ctrl-D
        terminal = Terminal(alone, "delete", name)
        terminal.expect(
            r"Delete .*\? This permanently deletes .*, its disk, and all .* on it\. \[y/N\] "
        )
        terminal.type(answer)
        assert terminal.end() == 1
        assert "Nothing was changed" in terminal.text
        assert state_of(emulator, name) == "READY"

    terminal = Terminal(alone, "delete", name)
    terminal.expect(r"\[y/N\] ")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert state_of(emulator, name) == ""


def test_a_list_that_is_watched_shows_changes_until_ctrl_c(served, create_tpu, emulator):
    name = create_tpu()["name"].rpartition("/")[2]
    terminal = Terminal(served, "list", "--watch", "--filter", f"name={name}")
    terminal.expect(f"{name}.*READY")
    assert served.run("stop", name, "--yes").returncode == 0
    terminal.expect(f"{name}.*STOPPED")
    assert state_of(emulator, name) == "STOPPED"
    terminal.type("\x03")
    assert terminal.end() == 0
    last = terminal.text[terminal.text.rindex("\x1b[?1049l") :]  # what stays on the screen
    assert "STOPPED" in last
    values = served.out("list", "--filter", f"name={name}", "--format", "value(name,state)")
    assert values == f"{name}\tSTOPPED\n"


def test_a_terminal_shows_a_bar_and_ctrl_c_twice_cancels(either, name, faults, emulator):
    faults(kind="slow", seconds=30, count=1)
    terminal = Terminal(either, "create", name, "--type", "v5litepod-4")
    terminal.expect(rf"━.*\d:\d\d.*{name}: ")
    terminal.type("\x03")
    terminal.expect(f"Still creating {name}. Enter: keep waiting, .* Ctrl-C: cancel")
    terminal.type("\n")  # keeps waiting
    terminal.expect(rf"━.*{name}: ")
    terminal.type("\x03")
    terminal.expect("Ctrl-C: cancel")
    terminal.type("\x03")
    terminal.expect(f"Cancelling creating {name}")
    assert terminal.end() == 1
    assert f"Cancelled creating {name}." in terminal.text
    assert state_of(emulator, name) in ("", "DELETING")


@pytest.mark.long
def test_a_third_ctrl_c_ends_the_waiting_and_the_cancel_goes_on(alone, name, faults, emulator):
    faults(kind="error", method="DeleteNode", code="UNAVAILABLE")
    faults(kind="slow", seconds=2, count=1)
    terminal = Terminal(alone, "create", name, "--type", "v5litepod-4")
    terminal.expect(f"{name}: Create the TPU")
    until(lambda: state_of(emulator, name) == "CREATING")
    terminal.type("\x03")
    terminal.expect("Ctrl-C: cancel")
    terminal.type("\x03")
    terminal.expect(f"Cancelling creating {name}, and cleaning up")
    until(lambda: state_of(emulator, name) == "READY")  # nobody can delete it now
    terminal.type("\x03")
    assert terminal.end() == 1
    assert re.search(rf"Cancelling creating {name} has not ended\.\s+The next", terminal.text)
    assert state_of(emulator, name) == "READY"

    emulator.request("DELETE", "/emulator/v1/faults")
    with running_server(alone):  # nobody has to ask for it
        until(lambda: state_of(emulator, name) == "")

        def is_cancelled() -> bool:
            [operation] = alone.json("api", "GET", "operations")
            return (operation["kind"], operation["state"]) == ("create", "cancelled")

        until(is_cancelled)


def test_a_question_that_nobody_answers_ends_with_the_operation(either, name, faults):
    faults(kind="slow", seconds=3, count=1)
    terminal = Terminal(either, "create", name, "--type", "v5litepod-4")
    terminal.expect(f"{name}: Create the TPU")
    terminal.type("\x03")
    terminal.expect("Ctrl-C: cancel")
    terminal.expect(f"{name} is ready")
    assert terminal.end() == 0

    faults(kind="slow", seconds=3, count=1)
    terminal = Terminal(either, "delete", name, "--yes")
    terminal.expect("Delet(e|ing) the TPU")
    terminal.type("\x03")
    terminal.expect("s or Ctrl-C: stop waiting")
    terminal.expect(f"Deleted {name}.")
    assert terminal.end() == 0


def test_leaving_a_wait_says_who_goes_on(either, name, faults):
    faults(kind="slow", seconds=3, count=1)
    terminal = Terminal(either, "create", name, "--type", "v5litepod-4")
    terminal.expect(f"{name}: Create the TPU")
    terminal.type("\x03")
    terminal.expect("Ctrl-C: cancel")
    terminal.type("s\n")
    assert terminal.end() == 1
    assert re.search(
        f"(Google|The Jupyter server) is still creating {name}; `jupyter tpu list` shows",
        terminal.text,
    )
    assert name in either.out("list")


def test_a_deletion_can_be_left_but_not_cancelled(alone, create_tpu, faults, emulator):
    name = create_tpu()["name"].rpartition("/")[2]
    faults(kind="slow", seconds=3, count=1)
    terminal = Terminal(alone, "delete", name, "--yes")
    terminal.expect("Delet(e|ing) the TPU")
    terminal.type("\x03")
    terminal.expect("It can't be cancelled. Enter: keep waiting, s or Ctrl-C: stop waiting\\? ")
    terminal.type("s\n")
    assert terminal.end() == 1
    assert f"Google is still deleting {name}; `jupyter tpu list` shows its state" in terminal.text
    assert "Cancel" not in terminal.text
    until(lambda: state_of(emulator, name) == "")


def test_a_create_of_one_command_is_cancelled_by_another(alone, name, faults, emulator):
    faults(kind="slow", seconds=60, count=1)
    creating = subprocess.Popen(
        [*COMMAND, "create", name, "--type", "v5litepod-1"],
        env=alone.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: state_of(emulator, name) == "CREATING")
    [operation] = alone.json("operation", "list", "--json")
    assert (operation["kind"], operation["state"]) == ("create", "running")
    id = operation["id"]
    assert alone.out("operation", "cancel", id[:6], "--yes") == f"Cancelled creating {name}.\n"
    assert creating.communicate(timeout=LIMIT)[1].endswith(f"Cancelled creating {name}.\n")
    assert state_of(emulator, name) == ""
    assert "No operation begins with 'x'." in alone.complaint("operation", "cancel", "x")


def test_what_google_refuses_to_delete_is_reported_until_somebody_agrees_to_keep_it(
    served, create_tpu, faults
):
    name = create_tpu(type="v5litepod-1")["name"].rpartition("/")[2]
    faults(kind="error", method="DeleteNode", code="FAILED_PRECONDITION", message="It has disks.")
    operation = served.json("delete", name, "--yes", "--no-wait", "--json")
    until(lambda: "It has disks." in served.out("operation", "list"))
    assert f"{name} is not deleted yet." in served.out("list")
    terminal = Terminal(served, "operation", "stop-trying", operation["id"][:6])
    terminal.expect(f"{name} will not be deleted. Stop trying to delete it")
    terminal.type("y\n")
    terminal.expect("READY. Trying to delete it was stopped. It has disks.")
    assert terminal.end() == 0
    assert f"{name} was not deleted." in served.out("list")


def test_a_signal_without_a_terminal_says_what_goes_on_and_a_second_one_cancels(
    alone, name, faults, emulator
):
    faults(kind="slow", seconds=30, count=1)
    process = subprocess.Popen(
        [*COMMAND, "create", name, "--type", "v5litepod-4"],
        env=alone.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while "Create the TPU" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert "Press Ctrl-C again to cancel" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    shown, rest = process.communicate(timeout=LIMIT)
    assert process.returncode == 1, shown + rest
    assert f"Cancelled creating {name}." in rest
    assert "Traceback" not in rest
    assert state_of(emulator, name) in ("", "DELETING")


# ---- which server --------------------------------------------------------------------------------


def test_commands_beside_a_server_let_the_server_do_it(served, name):
    served.out("create", name, "--type", "v5litepod-4")
    done = served.json("api", "GET", "operations")
    assert ("create", name, "done") in [(o["kind"], o["tpu"], o["state"]) for o in done]
    served.out("delete", name, "--yes")


def test_a_server_on_another_cloud_is_not_used(alone, tmp_path, emulator, name):
    elsewhere = {"CLOUDSDK_CORE_PROJECT": "another", "JUPYTER_TPU_EMULATOR": ""}
    other = Shell(alone.folder, **elsewhere)
    with running_server(other):
        alone.out("create", name, "--type", "v5litepod-4")  # the other one has no credentials
        assert state_of(emulator, name) == "READY"
        catalog = alone.json("api", "GET", "catalog")
        assert (catalog["project"], catalog["cloud"]) == ("another", "google")


def test_an_environment_without_any_cloud_takes_the_servers(served):
    shell = Shell(served.folder, HOME=str(served.folder))
    assert shell.json("list", "--json")["problem"] is None


# ---- api -----------------------------------------------------------------------------------------


def test_api_finds_the_server_and_gives_what_rest_gives(served, name):
    body = {"name": name, "type": "v5litepod-4", "zone": "us-central1-a"}
    (served.folder / "body.json").write_text(json.dumps(body))
    operation = served.json("api", "post", "tpus", "--data", "@body.json")
    assert (operation["kind"], operation["tpu"]) == ("create", name)
    assert name in [
        tpu["name"] for tpu in served.json("api", "GET", "/jupyter-tpu/v1/tpus")["tpus"]
    ]
    assert "version" in served.json("api", "GET", "/api")  # Jupyter Server's own
    path = f"operations/{operation['id']}"
    until(lambda: served.json("api", "GET", path)["state"] != "running")
    followed = served.out(
        "api", "DELETE", f"tpus/{name}", "--follow", "--data", "-", input='{"end_kernels": true}'
    )
    assert followed.splitlines()[0] == f"{name}: delete began"
    assert followed.splitlines()[-1] == f"{name}: delete is done"


def test_api_says_what_the_server_refused(served):
    complaint = served.complaint("api", "GET", "tpus/nothing")
    assert complaint.startswith("jupyter tpu: The TPU nothing does not exist. There are")
    assert "The field type is" in served.complaint(
        "api", "POST", "tpus", "--data", '{"name": "x", "type": 3}'
    )
    assert "answered 404" in served.complaint("api", "GET", "frobs")


def test_api_follows_an_operation_without_a_tpu_and_prints_what_it_found(served):
    pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
    body = {"code": "f = lambda x: x + 1", "function": "f", "type": "v6e-1"}
    body["arguments"] = [{"shape": [8, 128]}]
    output = served.out("api", "POST", "jax/compile", "--follow", "--data", json.dumps(body))
    before, _, answer = output.partition("compile is done\n")
    assert before.startswith("compile began\n")
    assert json.loads(answer)["type"] == "v6e-1"
    body["code"] = "f = 1 / 0"
    assert "line 1: ZeroDivisionError" in served.complaint(
        "api", "POST", "jax/compile", "--follow", "--data", json.dumps(body)
    )


def test_api_uses_the_newest_server_with_the_extension_or_the_given_one(alone):
    with running_server(alone) as older, running_server(alone, extension=False) as newest:
        assert alone.json("api", "GET", "tpus")["problem"] is None
        assert alone.json("api", "GET", "tpus", "--server", older)["problem"] is None
        assert "answered 404" in alone.complaint("api", "GET", "tpus", "--server", newest)
        assert "Running: " in alone.complaint(
            "api", "GET", "tpus", "--server", "http://127.0.0.1:9"
        )


def test_a_token_that_the_running_server_does_not_have_is_said_to_be_missing_there(alone):
    alone.environment.pop("HF_TOKEN", None)
    alone.environment["HF_HOME"] = str(alone.folder)
    with running_server(alone) as url:
        alone.environment["HF_TOKEN"] = "hf_secret"
        port = url.rpartition(":")[2]
        missing = (
            f":{port} does not have it, so what it starts does not get it. Set it where Jupyter is "
            "started, or run `hf auth login`.\n"
        )
        assert alone.out("token", "pass", "HF_TOKEN").endswith(missing)
        assert alone.out("token", "list").endswith(missing)
        (alone.folder / "token").write_text("hf_secret")  # as `hf auth login` does
        assert "does not have it" not in alone.out("token", "list")


def task(shell: Shell, label: str, name: str) -> list[str]:
    """The words of `jupyter tpu` that a task for VS Code runs, for a v5litepod-4."""
    written = json.loads((shell.folder / ".vscode" / "tasks.json").read_text())
    [written_task] = [entry for entry in written["tasks"] if entry["label"] == f"TPU: {label}"]
    assert written_task["command"] == "${command:python.interpreterPath}"
    inputs = {"tpuName": name, "tpuType": "v5litepod-4", "tpuZone": "us-central1-a"}
    words = [
        re.sub(r"\$\{input:(\w+)\}", lambda match: inputs[match[1]], w)
        for w in written_task["args"]
    ]
    assert words[:3] == ["-P", "-m", "jupyter_tpu.cli"]
    return words[3:]


def test_the_tasks_for_vs_code_work_without_a_server_and_ask_in_their_terminal(
    alone, create_tpu, emulator
):
    name = create_tpu()["name"].rpartition("/")[2]
    assert "wrote the tasks" in alone.out("vscode")
    assert name in alone.out(*task(alone, "list", name))
    assert f"Stopped {name}." in alone.out(*task(alone, "stop", name))
    assert f"Started {name}." in alone.out(*task(alone, "start", name))
    terminal = Terminal(alone, *task(alone, "delete", name))
    terminal.expect(r"\[y/N\] ")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert state_of(emulator, name) == ""


@pytest.mark.long
def test_the_tasks_for_vs_code_make_and_remove_a_kernel_without_a_server(alone, name):
    alone.out("vscode")
    output = alone.out(*task(alone, "create and connect", name), limit=240)
    assert "is in every kernel picker" in output
    assert f"Disconnected {name}." in alone.out(*task(alone, "disconnect", name))
    assert alone.json("kernel", "list", "--json") == []
    assert "is in every kernel picker" in alone.out(*task(alone, "connect", name))


# ---- the emulator's command ----------------------------------------------------------------------


def test_the_emulator_says_where_it_is_and_ends_with_ctrl_c(tmp_path):
    shell = Shell(tmp_path)
    command = ["emulator", "--state", str(tmp_path / "state")]
    process = subprocess.Popen(
        [*COMMAND, *command],
        env=shell.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        lines = [process.stdout.readline().strip() for _ in range(3)]
        said = dict(line.split(": ", 1) for line in lines)
        assert list(said) == ["emulator ready", "token file", "state file"]
        state = json.loads(Path(said["state file"]).read_text())
        assert (state["rest"], state["pid"]) == (said["emulator ready"], process.pid)
        assert state["token_file"] == said["token file"]
        for path in (said["token file"], said["state file"]):
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600

        exports = shell.out(*command, "--env").splitlines()
        assert f"export JUPYTER_TPU_EMULATOR={said['state file']}" in exports
        assert all(line.startswith("export ") for line in exports)
        assert str(process.pid) in shell.complaint(*command)
        shell.environment["JUPYTER_TPU_EMULATOR"] = said["state file"]
        assert "No TPUs yet" in shell.out("list")

        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
    finally:
        if process.poll() is None:
            process.kill()
    assert (process.returncode, errors) == (0, "")
    assert out.splitlines()[-1] == "emulator ended"
    assert not Path(said["state file"]).exists()


def test_help_is_there_at_once_because_it_imports_nothing_heavy(tmp_path):
    listing = "import sys; print([m for m in sys.modules if '.' not in m])"
    code = f"import atexit; atexit.register(lambda: exec({listing!r}))\n"
    code += "from jupyter_tpu.cli import main; main(['--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    loaded = set(re.findall(r"'(\w+)'", done.stdout.splitlines()[-1]))
    assert {"jupyter_tpu", "click"} <= loaded
    heavy = {
        "aiohttp", "asyncssh", "google", "grpc", "jupyter_server", "msgspec", "asyncio", "rich",
        "zmq",
    }  # fmt: skip
    assert not heavy & loaded
