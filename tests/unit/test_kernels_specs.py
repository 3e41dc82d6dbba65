"""Kernelspecs as Jupyter sees them."""

import asyncio
import concurrent.futures
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from msgspec import structs
from refusals import raises

from jupyter_tpu.agent_token import AGENT_VARIABLE
from jupyter_tpu.cloud import NodeName
from jupyter_tpu.errors import Reason
from jupyter_tpu.kernel_place import KernelPlace
from jupyter_tpu.kernels import KernelSpecs, TPUProvisioner, launch
from jupyter_tpu.kernels.config import KernelConfig
from jupyter_tpu.tokens import pass_on

NAME = NodeName("p", "us-central1-a", "my-tpu")
PLACE = KernelPlace(
    project=NAME.project, zone=NAME.zone, tpu=NAME.node, host_python="/home/me/env/bin/python"
)


def register(
    specs: KernelSpecs,
    *,
    python_version: str = "3.12.4",
    emulated: bool = False,
    stopped: bool = False,
    variables: dict[str, str] | None = None,
    **place: Any,
) -> tuple[str, str]:
    """place: what is not as usual."""
    return specs.register(
        structs.replace(PLACE, **place),
        python_version=python_version,
        emulated=emulated,
        stopped=stopped,
        variables=variables,
    )


@pytest.fixture
def specs(tmp_path) -> KernelSpecs:
    return KernelSpecs(tmp_path / "data" / "kernels")


@pytest.fixture
def jupyter(specs) -> KernelSpecManager:
    return KernelSpecManager(kernel_dirs=[str(specs.folder)], ensure_native_kernel=False)


def launcher_options(argv: list[str]) -> list[str]:
    """What the launcher gets of a kernelspec's command, with the name of a connection file."""
    return ["-f", "connection.json", *argv[argv.index("-f") + 2 :]]


def started(parsed: tuple[str, list[str], KernelConfig]) -> dict[str, Any]:
    """What the launcher asks the agent for."""
    _, variables, config = parsed
    return launch._start_request(config, variables)


def test_a_registered_environment_is_a_kernelspec_of_jupyter(specs, jupyter):
    name, display_name = register(specs)
    assert (name, display_name) == ("tpu-us-central1-a-my-tpu-default", "Python 3.12 · my-tpu")
    spec = jupyter.get_kernel_spec(name)
    assert spec.display_name == display_name
    assert spec.language == "python"
    assert spec.interrupt_mode == "signal"
    assert spec.metadata["debugger"] is True
    provisioner = spec.metadata["kernel_provisioner"]
    assert provisioner["provisioner_name"] == "jupyter-tpu"
    assert set(provisioner["config"]) <= set(TPUProvisioner.class_trait_names())
    resources = jupyter.get_all_specs()[name]["resource_dir"]
    for logo in ("logo-svg.svg", "logo-32x32.png", "logo-64x64.png"):
        assert (specs.folder / name / logo).stat().st_size > 0, resources


def test_a_pod_has_a_kernelspec_of_all_hosts_beside_that_of_host_0(specs, jupyter):
    one, _ = register(specs)
    name, display_name = register(specs, emulated=True, hosts=4)
    assert name == f"{one}-all-hosts"
    assert display_name == "Python 3.12 · my-tpu (all 4 hosts, emulated)"
    assert [spec.place.is_default for spec in specs.list()] == [True, False]
    spec = jupyter.get_kernel_spec(name)
    assert spec.metadata["kernel_provisioner"]["config"]["hosts"] == 4
    options = launch._parsed(launcher_options(spec.argv))
    assert started(options)["pod"] == {"slices": []}
    options = launch._parsed(launcher_options(jupyter.get_kernel_spec(one).argv))
    assert "pod" not in started(options)
    specs.unregister(NAME, "default")
    assert specs.list() == []


def test_a_kernel_on_several_slices_has_a_kernelspec_that_goes_with_each_of_its_tpus(specs):
    pod, _ = register(specs, hosts=4)
    name, display_name = register(specs, hosts=4, slices="b,c")
    assert name == f"{pod}-b-c"
    assert display_name == "Python 3.12 · my-tpu + b + c (3 slices, all 4 hosts)"
    [spec] = [spec for spec in specs.list() if spec.place.slices]
    kernel_json = json.loads((specs.folder / name / "kernel.json").read_text())
    options = launch._parsed(launcher_options(kernel_json["argv"]))
    assert started(options)["pod"] == {"slices": ["b", "c"]}
    specs.unregister(NodeName(spec.place.project, spec.place.zone, "c"))
    assert [spec.name for spec in specs.list()] == [pod]


def test_variables_reach_the_kernel_through_jupyter_and_through_the_launcher(specs, jupyter):
    name, _ = register(specs, variables={"TPU_PROCESS_BOUNDS": "1,1,1"})
    spec = jupyter.get_kernel_spec(name)
    assert spec.env == {"TPU_PROCESS_BOUNDS": "1,1,1"}
    assert spec.argv[-2:] == ["--variable", "TPU_PROCESS_BOUNDS=1,1,1"]


def test_its_command_is_a_complete_launcher_for_clients_without_provisioners(specs, jupyter):
    name, _ = register(specs, worker=3, emulator="/state.json")
    argv = jupyter.get_kernel_spec(name).argv
    # The first word is not Python: jupytext would take the kernel for the local one.
    assert argv[:2] == ["/usr/bin/env", sys.executable]
    assert argv[2:6] == ["-P", "-m", "jupyter_tpu.kernels.launch", "-f"]
    assert argv[6] == "{connection_file}"
    options = dict(zip(argv[7::2], argv[8::2], strict=True))
    assert options == {
        "--project": "p",
        "--zone": "us-central1-a",
        "--tpu": "my-tpu",
        "--worker": "3",
        "--environment": "default",
        "--host-python": "/home/me/env/bin/python",
        "--emulator": "/state.json",
    }


def test_arguments_that_a_client_gives_the_kernel_are_named_as_not_used(caplog):
    provisioner = TPUProvisioner(kernel_spec=KernelSpec(argv=[]), kernel_id="k")
    asyncio.run(provisioner.pre_launch(extra_arguments=["--IPKernelApp.exec_lines=x = 1"]))
    assert "It starts without --IPKernelApp.exec_lines=x = 1." in caplog.text


def test_a_program_of_ours_gets_the_replies_of_a_kernel_that_dies_and_a_runner_does_not():
    provisioner = TPUProvisioner(kernel_spec=KernelSpec(argv=[]), kernel_id="k")
    for options, answers in (({"answers_when_dead": True}, True), ({}, False)):
        assert "answers_when_dead" not in asyncio.run(provisioner.pre_launch(**options))
        assert provisioner._answers_when_dead is answers


def test_of_a_clients_variables_only_those_are_passed_that_it_added_or_changed(monkeypatch):
    monkeypatch.setenv("SECRET", "of the server")
    monkeypatch.setenv("MODE", "a")
    here = {**os.environ, "MODE": "b", "KERNEL_MODEL": "big", "PATH": "/x", "CONDA_PREFIX": "/y"}
    sent = TPUProvisioner(kernel_spec=KernelSpec())._start_request(here)["env"]
    key = sent.pop("JUPYTER_TPU_SESSION_KEY")
    assert (len(key), sent) == (64, {"MODE": "b", "KERNEL_MODEL": "big"})


def test_what_a_user_sets_in_it_stays_and_holds_with_and_without_provisioners(
    specs, jupyter, monkeypatch
):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    chosen = {
        "folder": "~/work",
        "needs_chips": False,
        "journal_limit": 5 << 20,
        "when_full": "drop",
        "start_timeout": 7.5,
    }
    variables = {"A": "b=c"}
    for told in ({}, chosen):
        name, _ = register(specs, variables=variables)
        file = specs.folder / name / "kernel.json"
        spec = json.loads(file.read_text())
        spec["metadata"]["kernel_provisioner"]["config"].update(told)
        file.write_text(json.dumps(spec))
        register(specs, variables=variables)
        kernelspec = jupyter.get_kernel_spec(name)
        config = kernelspec.metadata["kernel_provisioner"]["config"]
        assert {option: config[option] for option in told} == told
        provisioner = TPUProvisioner(kernel_spec=kernelspec, **config)
        options = launch._parsed(launcher_options(kernelspec.argv))
        assert started(options) == provisioner._start_request(kernelspec.env)
        assert options[2].start_timeout == provisioner.start_timeout


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--journal-limit", "1000", "'1000' is not a number of at least 1048576"),
        ("--journal-limit", "2G", "'2G' is not a number of at least"),
        ("--when-full", "explode", "choose from"),
        ("--needs-chips", "perhaps", "choose from"),
    ],
)
def test_the_launcher_says_what_is_wrong_with_an_option(capsys, option, value, why):
    needed = ["-f", "x", "--project", "p", "--zone", "z", "--tpu", "t", "--host-python", "python"]
    with pytest.raises(SystemExit):
        launch._parsed([*needed, option, value])
    said = capsys.readouterr().err.splitlines()[-1]
    assert option in said
    assert why in said


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"environment": "torch"}, "Python 3.12 · my-tpu · torch"),
        ({"emulated": True}, "Python 3.12 · my-tpu (emulated)"),
        ({"stopped": True}, "Python 3.12 · my-tpu (stopped)"),
        ({"emulated": True, "stopped": True}, "Python 3.12 · my-tpu (emulated, stopped)"),
        ({"worker": 2, "environment": "x"}, "Python 3.12 · my-tpu · host 2 · x"),
    ],
)
def test_the_display_name_says_what_is_not_usual(specs, changed, expected):
    assert register(specs, **changed)[1] == expected


def test_registering_again_renews_and_leaves_one(specs, jupyter):
    register(specs)
    name, _ = register(specs, python_version="3.13.1")
    assert [spec.name for spec in specs.list()] == [name]
    assert jupyter.get_kernel_spec(name).display_name == "Python 3.13 · my-tpu"
    assert [path.name for path in specs.folder.parent.iterdir()] == ["kernels"]


def test_tpus_of_the_same_name_elsewhere_get_kernelspecs_of_their_own(specs):
    ours, _ = register(specs)
    theirs, _ = register(specs, project="other")
    emulated, _ = register(specs, emulator="/state.json", emulated=True)
    assert len({ours, theirs, emulated}) == 3
    assert register(specs, project="other")[0] == theirs


def test_unregistering_removes_what_was_meant_and_nothing_else(specs):
    default, _ = register(specs)
    torch, _ = register(specs, environment="torch")
    other, _ = register(specs, tpu="other")
    foreign = specs.folder / "python3"
    foreign.mkdir()
    (foreign / "kernel.json").write_text(json.dumps({"argv": [], "display_name": "Python"}))
    (specs.folder / "broken").mkdir()
    (specs.folder / "broken" / "kernel.json").write_text("{")
    specs.unregister(NAME, "torch")
    assert [spec.name for spec in specs.list()] == sorted([default, other])
    specs.unregister(NAME)
    specs.unregister(NAME)
    assert sorted(path.name for path in specs.folder.iterdir()) == sorted(
        [other, "python3", "broken"]
    )
    assert torch not in {spec.name for spec in specs.list()}


def test_a_kernels_folder_on_another_file_system_works(tmp_path, jupyter, specs):
    folders = [path for path in map(Path, ("/dev/shm", "/var/tmp")) if path.is_dir()]
    others = [path for path in folders if path.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("there is no second file system")
    elsewhere = Path(tempfile.mkdtemp(dir=others[0]))
    try:
        specs.folder.parent.mkdir()
        specs.folder.symlink_to(elsewhere)
        name, _ = register(specs)
        assert list(jupyter.find_kernel_specs()) == [name]
        specs.unregister(NAME)
        assert list(elsewhere.iterdir()) == []
    finally:
        shutil.rmtree(elsewhere)


def test_listing_without_a_folder_finds_none(specs):
    assert specs.list() == []
    specs.unregister(NAME)


@pytest.mark.timeout(20)
def test_the_launcher_ends_when_its_kernel_fails_with_a_timeout():
    """It polls its kernel with a timeout, and must not take the kernel's own for that."""
    running: concurrent.futures.Future[int] = concurrent.futures.Future()
    running.set_exception(TimeoutError("the kernel's"))
    with pytest.raises(TimeoutError, match="the kernel's"):
        launch._wait(running, os.getppid())


def test_chosen_tokens_are_read_at_each_start_and_are_in_no_kernelspec(
    specs, jupyter, monkeypatch, tmp_path
):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "tpu"))
    monkeypatch.setenv("HF_TOKEN", "hf_first")
    pass_on("HF_TOKEN")
    name, _ = register(specs)
    kernelspec = jupyter.get_kernel_spec(name)
    provisioner = TPUProvisioner(kernel_spec=kernelspec)
    options = launch._parsed(launcher_options(kernelspec.argv))
    for value in ("hf_first", "hf_renewed"):
        monkeypatch.setenv("HF_TOKEN", value)
        for request in (provisioner._start_request({}), started(options)):
            assert request["env"]["HF_TOKEN"] == value
    assert "hf_" not in (specs.folder / name / "kernel.json").read_text()
    # A coding agent, or a TPU that one has created and where it reads all programs' variables.
    assert "HF_TOKEN" not in provisioner._start_request({AGENT_VARIABLE: "1"})["env"]
    name, _ = register(specs, of_agent=True)
    kernelspec = jupyter.get_kernel_spec(name)
    config = kernelspec.metadata["kernel_provisioner"]["config"]
    provisioner = TPUProvisioner(kernel_spec=kernelspec, **config)
    options = launch._parsed(launcher_options(kernelspec.argv))
    for request in (provisioner._start_request({}), started(options)):
        assert "HF_TOKEN" not in request["env"]
    pass_on("HF_TOKEN", agents=True)
    assert started(options)["env"]["HF_TOKEN"] == "hf_renewed"


def test_a_kernel_of_a_coding_agent_starts_only_where_a_server_was_asked(
    specs, jupyter, monkeypatch, tmp_path, capsys
):
    """Before a host is reached: none is there."""
    name, _ = register(specs)
    kernelspec = jupyter.get_kernel_spec(name)
    provisioner = TPUProvisioner(kernel_spec=kernelspec)
    with raises(Reason.PERMISSION, "A coding agent may not run a kernel of"):
        asyncio.run(provisioner.launch_kernel([], env={AGENT_VARIABLE: "1"}))
    monkeypatch.setenv(AGENT_VARIABLE, "1")
    assert launch.main(launcher_options(kernelspec.argv)) == 1
    assert "A coding agent may not run a kernel of my-tpu" in capsys.readouterr().err


def test_kernels_of_some_chips_are_kernelspecs_beside_that_of_all(specs, jupyter):
    whole, _ = register(specs)
    name, display_name = register(specs, chips="2,3")
    one, _ = register(specs, chips="0")
    assert name == f"{whole}-chip2-3"
    assert display_name == "Python 3.12 · my-tpu · chips 2-3"
    assert [spec.place.chips for spec in specs.list()] == ["", "0", "2,3"]
    assert specs.choices(NAME, "default") == [[0], [2, 3]]
    assert specs.choices(NAME, "torch") == []

    kernelspec = jupyter.get_kernel_spec(name)
    config = kernelspec.metadata["kernel_provisioner"]["config"]
    request = TPUProvisioner(kernel_spec=kernelspec, **config)._start_request({})
    options = launch._parsed(launcher_options(kernelspec.argv))
    assert request["chips"] == started(options)["chips"] == [2, 3]
    kernelspec = jupyter.get_kernel_spec(whole)
    config = kernelspec.metadata["kernel_provisioner"]["config"]
    assert TPUProvisioner(kernel_spec=kernelspec, **config)._start_request({})["chips"] == []

    specs.unregister(NAME, "default", [2, 3])
    assert [spec.name for spec in specs.list()] == [whole, one]
    specs.unregister(NAME, "default")
    assert specs.list() == []
