"""What hosts get beside Python, on eight hosts that are this machine under other home folders."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError
from waiting import eventually

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.environment import EnvironmentSpec, ExpectedHardware, HostSetup, plan
from jupyter_tpu.environment.creation import take
from jupyter_tpu.environment.host_work import HostWork, Probe
from jupyter_tpu.environment.steps import steps_of
from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet import EnvironmentDefaults
from jupyter_tpu.fleet.core.known_operations import OperationProgress
from jupyter_tpu.fleet.core.records import EnvironmentRecord
from jupyter_tpu.fleet.environments.environment import merge_request
from jupyter_tpu.fleet.models import ConnectTPU, Environment, Operation
from jupyter_tpu.links import HostName
from jupyter_tpu.on_host.environments.host_setup import _apt_error, setup_states
from jupyter_tpu.server.app import JupyterTPU
from jupyter_tpu.ssh import CompletedCommand


class Host:
    """Runs the programs for hosts here."""

    def __init__(self, home: Path, worker: int) -> None:
        self.host = HostName(NodeName("project", "zone", "pod"), worker)
        self.home = home
        self.environment = home / ".jupyter-tpu/environments/default"
        (self.environment / "bin").mkdir(parents=True)
        (self.environment / "bin/python").symlink_to(sys.executable)

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
        check: bool = True,
    ) -> CompletedCommand:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=-1, stdout=-1, stderr=-1, env={**os.environ, "HOME": str(self.home)}
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(input)
        process.stdin.close()
        try:
            async for line in process.stdout:
                assert on_line is not None
                on_line(line.decode())
            errors = (await process.stderr.read()).decode()
            return CompletedCommand(returncode=await process.wait(), stdout="", stderr=errors)
        finally:
            output = process._transport.get_pipe_transport(1)
            output.close()  # as when the link is lost

    def state(self, script: str) -> str:
        return setup_states({"script": script}, str(self.environment))["script"]


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Host]:
    monkeypatch.delenv("JUPYTER_TPU_EMULATED_HOST", raising=False)
    return [Host(tmp_path / f"host-{worker}", worker) for worker in range(8)]


async def run_script(hosts: list[Host], script: str, missing: Sequence[int]) -> list[str]:
    """Applies the step to the hosts *missing*; returns the log."""
    spec = EnvironmentSpec(environment="default", setup=HostSetup(script=script))
    operation = Operation(id="1", kind="connect")
    progress = OperationProgress(operation, lambda: None)
    progress.plan(plan(spec), hosts=len(hosts))
    work = HostWork(hosts, spec, ExpectedHardware(emulated=False), progress)
    step = next(setup_step for setup_step in steps_of(spec) if setup_step.plan.key == "script")
    progress.begin("script")
    async with asyncio.timeout(300):
        await step.apply(work, missing)
    [shown] = [
        running_step
        for running_step in operation.steps
        if running_step.title == "Run the setup script"
    ]
    assert shown.hosts_done == 8
    return operation.log


async def test_a_script_that_fails_on_host_3_of_8_is_done_on_the_others_and_repeated_only_there(
    hosts,
):
    script = (
        "#!/bin/bash\necho $JUPYTER_TPU_HOST >>~/runs\n"
        '[ "$JUPYTER_TPU_HOST" != 3 ] || [ -e ~/disk ] || { echo No such disk.; exit 7; }\n'
    )
    with pytest.raises(TPUError) as error:
        await run_script(hosts, script, range(8))
    assert error.value.message == (
        "On host 3: The setup script failed with exit code 7: No such disk. "
        "The other 7 hosts have finished."
    )
    assert "Hosts that have finished don't repeat it." in error.value.hint
    states = [host.state(script) for host in hosts]
    assert states == ["needed" if worker == 3 else "done" for worker in range(8)]
    (hosts[3].home / "disk").touch()
    await run_script(hosts, script, [3])
    assert {host.state(script) for host in hosts} == {"done"}
    runs = [(host.home / "runs").read_text() for host in hosts]
    assert runs == [f"{n}\n" * (2 if n == 3 else 1) for n in range(8)]
    assert hosts[0].state(script + "true\n") == "needed", "its text has changed"


@pytest.mark.parametrize(
    ("key", "setup"),
    [("timezone", HostSetup(timezone="Mars/Olympus")), ("script", HostSetup(script="exit 7"))],
)
async def test_what_an_environment_can_do_without_fails_with_a_warning_and_the_rest_goes_on(
    hosts, key, setup
):
    spec = EnvironmentSpec(environment="default", setup=setup)
    operation = Operation(id="1", kind="connect")
    progress = OperationProgress(operation, lambda: None)
    progress.plan(plan(spec), hosts=len(hosts))
    work = HostWork(hosts, spec, ExpectedHardware(emulated=False), progress)
    probe = Probe(
        free=0, chips=0, uv="", path="", environment="", marker={}, requested={},
        setup={key: "needed"}, pythons={}, folders=[],
    )  # fmt: skip
    work.probes = [probe] * len(hosts)
    [step] = [setup_step for setup_step in steps_of(spec) if setup_step.plan.key == key]
    if key == "script":  # it may be what the packages need
        with pytest.raises(TPUError):
            await take(work, step)
        return
    await take(work, step)
    assert "Set the time zone: Hosts 0, 1, 2, 3, 4, 5, 6, 7 failed." in work.warning.message
    assert "The time zone Mars/Olympus does not exist on this host." in work.warning.message
    assert f"Warning: {work.warning}" in operation.log
    assert [step.title for step in operation.steps if step.state == "failed"] == [
        "Set the time zone"
    ]


@pytest.mark.parametrize("known", [True, False])
def test_a_package_that_apt_does_not_know_is_wrong_only_if_its_lists_are_new(known):
    failure = "" if known else "Failed to fetch http://deb.debian.org/  Could not connect"
    reason, message, hint = _apt_error(["E: Unable to locate package zsh"], failure).payload
    if known:
        assert (reason, message) == ("PACKAGE", "apt has no package zsh.")
        assert hint == "Correct the package names."
    else:
        assert message == f"apt can't update its package lists: {failure}."
        assert (reason, "network" in hint) == ("ENVIRONMENT", True)


async def test_all_hosts_that_fail_are_named(hosts):
    script = 'echo "no $JUPYTER_TPU_HOST"; [ "$JUPYTER_TPU_HOST" -lt 6 ]'
    with pytest.raises(TPUError) as error:
        await run_script(hosts, script, [5, 6, 7])
    assert error.value.message == (
        "Hosts 6, 7 failed. On host 6: The setup script failed with exit code 1: no 6. "
        "The other 6 hosts have finished."
    )


async def test_a_script_of_windows_without_a_first_line_runs_in_bash_and_leaves_no_file(hosts):
    script = "words=(one two)\r\necho ${words[1]} $(python -c 'print(6 * 7)')\r\n"
    script += "sleep 600 & echo $! >~/pid\r\n"
    script += "tr '\\0' ' ' </proc/$$/cmdline; cat\r\n"  # its input is empty
    log = await run_script(hosts, script, [0])
    assert "host 0: two 42" in log
    assert "host 0: Converted the setup script's Windows line endings" in log
    [command] = [line for line in log if "/proc/self/fd" in line]
    assert re.fullmatch(r"host 0: bash /proc/self/fd/\d+", command.strip())
    os.kill(int((hosts[0].home / "pid").read_text()), signal.SIGKILL)  # it was not waited for
    files = {path.name for path in hosts[0].environment.iterdir()}
    assert files == {"bin", "jupyter-tpu-setup-script"}
    assert hosts[0].state(script) == "done"


async def test_a_first_line_that_nothing_can_start_is_named(hosts):
    with pytest.raises(TPUError) as error:
        await run_script(hosts, "#!/no/such/shell\necho\n", [0])
    assert "can't be started: No such file or directory (#!/no/such/shell)." in error.value.message


async def test_a_script_whose_connection_was_lost_is_ended_and_runs_again(hosts):
    script = "echo $$ >~/pid; exec sleep 600"
    running = asyncio.create_task(run_script(hosts, script, [0]))
    pid_file = hosts[0].home / "pid"
    await eventually(lambda: pid_file.exists() and pid_file.read_text().strip())
    process = Path("/proc", pid_file.read_text().strip())
    assert process.exists()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await eventually(lambda: not process.exists())
    assert hosts[0].state(script) == "needed"


def test_where_root_is_this_machines_nothing_is_changed(hosts, monkeypatch):
    setup: dict[str, Any] = {"apt": ["tree"], "timezone": "Europe/Berlin", "script": "true"}
    monkeypatch.setenv("JUPYTER_TPU_EMULATED_HOST", "folder")  # as the emulator's fallback sets it
    assert set(setup_states(setup, str(hosts[0].environment)).values()) == {"skipped"}


def test_connecting_again_adds_to_the_setup_of_hosts_or_replaces_it():
    earlier = ConnectTPU(
        packages=["flax"], setup=HostSetup(apt=["tree=1", "jq"], timezone="UTC", script="true")
    )
    environment = Environment(name="default", tpu="pod", zone="zone", state="ready")
    before = EnvironmentRecord(node_id="1", request=earlier, environment=environment)
    setup = HostSetup(apt=["tree=2"])
    added = merge_request(before, ConnectTPU(setup=setup))
    assert added.setup == HostSetup(apt=["tree=2", "jq"], timezone="UTC", script="true")
    replaced = merge_request(before, ConnectTPU(setup=setup, replace_setup=True))
    assert (replaced.setup, replaced.packages) == (setup, ["flax"])
    assert merge_request(before, ConnectTPU(replace_setup=True)).setup == HostSetup()
    assert merge_request(before, ConnectTPU()) == earlier


def test_defaults_are_added_to_what_is_asked_for_but_not_to_a_lock_or_a_python_that_is_there(
    tmp_path,
):
    script = tmp_path / "setup.sh"
    script.write_text("true")
    defaults = EnvironmentDefaults.read(
        {
            "python": "3.12",
            "packages": ["flax", "numpy<2"],
            "apt": ["jq"],
            "setup_script": str(script),
        }
    )
    defaults.check()
    setup = HostSetup(apt=["jq"], script="true")
    asked = ConnectTPU(python="3.11", packages=["numpy==2.1"])
    assert defaults.added_to(asked) == ConnectTPU(
        python="3.11", packages=["flax", "numpy==2.1"], setup=setup
    )
    locked = ConnectTPU(lock="flax==1")
    assert defaults.added_to(locked) == ConnectTPU(lock="flax==1", setup=setup)
    request = ConnectTPU(python_path="~/venv")
    assert defaults.added_to(request) == request


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"pakages": ["flax"]}, "unknown field `pakages`"),
        ({"packages": "flax"}, "Expected `array`"),
        ({"python": "2.7"}, "Python"),
        ({"setup_script": "/none.sh"}, "/none.sh can't be read: No such file or directory"),
    ],
)
def test_wrong_defaults_are_refused_when_the_server_starts(values, why):
    with pytest.raises(TraitError, match=why):
        JupyterTPU(environment_defaults=values)
