"""Jobs as files for SkyPilot, gcluster and Kinetic: what is in them, and what their tools say."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from jupyter_tpu.catalog import types
from jupyter_tpu.commands.job_export import TOOLS, Tool, check, export_job
from jupyter_tpu.environment import launch_variables
from jupyter_tpu.errors import InvalidInput, TPUError
from jupyter_tpu.fleet.models import EnvironmentLock, HostJob, Job, JobAttempt
from jupyter_tpu.fleet.models.core import known_type

LOCK = EnvironmentLock(
    environment="default",
    text="einops==0.8.1\njax==0.9.1\nnumpy==2.4.0\n",
    python="3.12.4",
    tpu="my-pod",
    type="v5litepod-16",
    time="",
    emulated=True,
)
#: Words that a shell or YAML would change, or that end a here-document or a string.
COMMAND = ["python", "train.py", "--name", "it's $HOME: {a}\n", '"""', "\\n", "END-OF-COMMAND"]


def a_job(hosts: tuple[int, ...] = (0, 1, 2, 3), **fields: Any) -> Job:
    attempt = JobAttempt(number=1, created="", hosts=[HostJob(host=host) for host in hosts])
    values = {
        "id": "1a2b3c4d",
        "tpu": "my-pod",
        "zone": "us-west4-a",
        "name": "Train: 1\nrm -rf /",
        "command": COMMAND,
        "state": "ended",
        "attempts": [attempt],
        **fields,
    }
    return Job(**values)


def exported(to: Tool, job: Job | None = None, type: str = "v5litepod-16", **options: Any) -> Any:
    kind = known_type(type)
    assert kind is not None
    lock = options.pop("lock", LOCK)
    tier = options.pop("tier", "spot")
    return export_job(job or a_job(), lock, kind, to, "/home/me/my project", tier=tier)


def run_script(script: str, folder: Path, **variables: str) -> str:
    """What a script prints where `uv`, `pip` and `python` say how they were called."""
    for name in ("uv", "pip", "python"):
        path = folder / name
        path.write_text(
            f'#!{sys.executable}\nimport os, sys\nprint("{name}", sys.argv[1:], '
            'os.environ.get("JUPYTER_TPU_HOST"), os.environ.get("JUPYTER_TPU_ADDRESSES"))\n'
        )
        path.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), **variables}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_skypilot_gets_the_type_the_packages_the_project_and_the_command_on_all_hosts(tmp_path):
    export = exported("skypilot", a_job(variables=["WANDB_API_KEY"]))
    assert export.file_name == "train-1-rm-rf.sky.yaml"
    task = yaml.safe_load(export.content)
    assert task["workdir"] == "/home/me/my project"
    assert task["resources"]["accelerators"] == "tpu-v5litepod-16:1"
    assert task["resources"]["infra"] == "gcp/us-west4/us-west4-a"
    assert task["resources"]["use_spot"] is True
    setup = run_script(task["setup"], tmp_path)
    assert "uv ['venv', '--python', '3.12'" in setup
    packages = (tmp_path / ".jupyter-tpu-packages.txt").read_text()
    assert packages == "einops==0.8.1\njax[tpu]==0.9.1\nnumpy==2.4.0\n"
    out = run_script(
        task["run"], tmp_path, SKYPILOT_NODE_RANK="2", SKYPILOT_NODE_IPS="10.0.0.1\n10.0.0.2"
    )
    assert out == f"python {COMMAND[1:]!r} 2 10.0.0.1,10.0.0.2\n"
    assert any("--secret WANDB_API_KEY" in line for line in export.notes)


def test_a_job_on_some_hosts_runs_on_those_only(tmp_path):
    task = yaml.safe_load(exported("skypilot", a_job(hosts=(0, 3))).content)
    ran = [
        bool(run_script(task["run"], tmp_path, SKYPILOT_NODE_RANK=str(host))) for host in range(4)
    ]
    assert ran == [True, False, False, True]


def test_gcluster_gets_one_command_with_all_of_it(tmp_path):
    command = COMMAND[:-1]  # a command with the mark of the here-document in a line is not one
    export = exported("gcluster", a_job(command=command, variables=["KEY"]))
    fake = tmp_path / "bin" / "gcluster"
    fake.parent.mkdir()
    fake.write_text(f"#!{sys.executable}\nimport sys, json\nprint(json.dumps(sys.argv[1:]))\n")
    fake.chmod(0o755)
    names = ("PROJECT", "CLUSTER", "LOCATION", "GCLUSTER_IMAGE_REPO", "KEY")
    variables = {name: f"a {name}" for name in names}
    script = tmp_path / "job.sh"
    script.write_text(export.content)
    environment = {**variables, "PATH": f"{fake.parent}:{os.environ['PATH']}"}
    missing = subprocess.run(["sh", str(script)], env={"PATH": os.environ["PATH"]},
                             capture_output=True, text=True)  # fmt: skip
    assert missing.returncode != 0
    assert "PROJECT" in missing.stderr
    words = yaml.safe_load(subprocess.check_output(["sh", str(script)], env=environment))
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert words[:2] == ["job", "submit"]
    assert options["--compute-type"] == "v5litepod-16"
    assert options["--topology"] == "4x4"
    assert options["--build-context"] == "/home/me/my project"
    assert options["--env"] == "KEY=a KEY"
    out = run_script(options["--command"], tmp_path, TPU_WORKER_ID="1", TPU_WORKER_HOSTNAMES="a,b")
    assert out.endswith(f"python {command[1:]!r} 1 a,b\n")
    assert "jax[tpu]==0.9.1" in options["--command"]


def test_kinetic_gets_a_function_and_the_packages(tmp_path):
    export = exported("kinetic", a_job(variables=["KEY"]))
    (tmp_path / "kinetic.py").write_text(
        "def run(**options):\n    print(options)\n    return lambda function: function\n"
    )
    (tmp_path / "requirements.txt").write_text("of the project\n")
    (tmp_path / "python").write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\n"
                                     "print('!', open('requirements.txt').read())\n")  # fmt: skip
    (tmp_path / "python").chmod(0o755)
    script = tmp_path / export.file_name
    script.write_text(export.content)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    run = subprocess.run([sys.executable, str(script)], env=environment, text=True, cwd=tmp_path,
                         capture_output=True, check=True)  # fmt: skip
    lines = run.stdout.splitlines()
    options = {"accelerator": "tpu-v5e-4x4", "spot": True, "capture_env_vars": ["KEY"]}
    assert str(options) in lines
    assert str(COMMAND[1:]) in lines
    packages = run.stdout.partition("! ")[2]
    # Kinetic removes JAX without this comment.
    assert packages.split("\n")[:3] == [
        "einops==0.8.1", "jax[tpu]==0.9.1  # kn:keep", "numpy==2.4.0",
    ]  # fmt: skip
    assert (tmp_path / "requirements.txt").read_text() == "of the project\n"
    assert any("Pathways" in line for line in export.notes)


def test_what_a_tool_can_not_create_is_refused_before_a_file_is_written():
    with pytest.raises(InvalidInput, match="does not know TPUs of the type v2-8"):
        exported("kinetic", type="v2-8")
    for type in ("v6e-1", "v6e-4", "v5p-8"):
        with pytest.raises(InvalidInput, match=f"Kinetic can't create a {type}: of v"):
            exported("kinetic", type=type)
    with pytest.raises(InvalidInput, match="SkyPilot can't create a tpu7x-8"):
        exported("skypilot", type="tpu7x-8")
    notes = exported("kinetic", type="v6e-8").notes
    assert "Kinetic makes a v6e-8 of 2 nodes with 4 chips each. Here it has 1 host." in notes
    assert any("Pathways" in note for note in notes)


def test_a_tier_that_a_tool_does_not_have_is_said():
    for to in TOOLS:
        notes = exported(to, tier="reserved").notes
        assert any(note.startswith("The job ran on a reserved TPU.") for note in notes), notes
        assert not any("The job ran" in note for note in exported(to, tier="on-demand").notes)


def test_gcluster_gets_names_that_it_does_not_cut():
    text = exported("gcluster", a_job(name="a-long-name-" * 3 + "1")).content
    assert "--name a-long-name-a-long-1a2b3c4d " in text, text


def test_packages_of_an_index_of_their_own_are_found_there():
    lock = structs.replace(LOCK, text="torch==2.9.0+cpu  # --index-url https://example.com/whl\n")
    for to in TOOLS:
        assert "--extra-index-url https://example.com/whl\n" in exported(to, lock=lock).content


def test_each_host_of_a_job_with_pytorch_has_torchruns_variables():
    lock = structs.replace(LOCK, text="torch==2.13.0\ntorch-tpu==0.2.0\n", framework="torch")
    script = yaml.safe_load(exported("skypilot", lock=lock).content)["run"]
    lines = [line for line in script.splitlines() if line.startswith("export ")]
    addresses = ["10.0.0.7", "10.0.0.3", "10.0.0.5", "10.0.0.1"]
    node = {"SKYPILOT_NODE_RANK": "2", "SKYPILOT_NODE_IPS": "\n".join(addresses)}
    done = subprocess.run(
        ["sh", "-c", "\n".join([*lines, "env"])],
        env={**node, "PATH": os.defpath}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    there = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    kind = known_type("v5litepod-16")
    assert kind is not None
    expected = launch_variables(kind, range(4), 2, addresses)
    assert {name: there.get(name) for name in expected} == expected


@pytest.mark.parametrize("to", TOOLS)
def test_a_job_without_an_environment_says_so(to):
    export = exported(to, lock=None)
    assert "jax[tpu]" in export.content
    assert any("without an environment" in line for line in export.notes)


def test_what_was_not_checked_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check("skypilot", tmp_path / "x") == (
        "Not checked: skypilot is not installed here (uv tool install skypilot)."
    )


def compare_with_kinetic(python: str) -> None:
    """What we refuse is what Kinetic refuses, and its filter leaves the packages as they are."""
    program = (
        "import json\nfrom kinetic.core.accelerators import TPUS\n"
        "print(json.dumps({name: {t.topology: t.num_nodes for t in spec.topologies.values()}"
        " for name, spec in TPUS.items()}))"
    )
    theirs = json.loads(subprocess.check_output([python, "-c", program]))
    for type in types():
        known = theirs.get("v5litepod" if type.generation == "v5e" else type.generation, {})
        if type.topology in known:
            notes = exported("kinetic", type=type.name).notes
            assert (known[type.topology] > 1) == any("Pathways" in note for note in notes), type
        else:
            with pytest.raises(InvalidInput):
                exported("kinetic", type=type.name)
    program = (
        "import sys\nfrom kinetic.infra.container_builder import _filter_jax_requirements as f\n"
        "assert f(sys.argv[1]) == sys.argv[1]"
    )
    packages = exported("kinetic").content.split('"""')[3]
    subprocess.run([python, "-c", program, packages], check=True)


@pytest.mark.long
def test_the_tools_own_parsers_accept_the_files(tmp_path, monkeypatch):
    """SkyPilot and Kinetic from the package index."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = os.environ["PATH"]
    for to, package in (("skypilot", "skypilot"), ("kinetic", "keras-kinetic")):
        folder = tmp_path / to
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "-q", "--python", sys.executable, str(folder)], check=True)
        python = str(folder / "bin/python")
        subprocess.run([*uv, "pip", "install", "-q", "--python", python, package], check=True)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:{path}")
        if to == "kinetic":
            compare_with_kinetic(python)
        for type in ("v5litepod-16", "v4-16", "v6e-8"):
            export = exported(to, type=type)
            file = tmp_path / export.file_name
            file.write_text(export.content)
            said = check(to, file)
            assert said.startswith(f"Checked by {package} "), said
        wrong = {"skypilot": ("workdir:", "workdirr:"), "kinetic": ("tpu-v6e", "tpu-v9z")}[to]
        file.write_text(export.content.replace(*wrong))
        with pytest.raises(TPUError, match="does not accept"):
            check(to, file)


def test_words_are_quoted_for_the_shell():
    task = yaml.safe_load(exported("skypilot").content)
    assert shlex.join(COMMAND) in task["run"]
