"""A job as a file for another tool: SkyPilot, Google's Cluster Toolkit (gcluster), Keras Kinetic.

The file has all that the job needs: its command, the exact packages of its environment, its
project, and all hosts of a TPU of the same type. No secret is in it. Each tool makes its own TPU.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..environment import launch_variables
from ..errors import InvalidInput, Reason, TPUError
from ..on_host.environments.indexes import split
from ..python_command import SAFE_PATH
from ..wording import count

if TYPE_CHECKING:
    from ..catalog import AcceleratorType
    from ..cloud.models import Tier
    from ..fleet.models import EnvironmentLock, Job

Tool = Literal["skypilot", "gcluster", "kinetic"]
TOOLS: tuple[Tool, ...] = ("skypilot", "gcluster", "kinetic")
_ENDINGS = {"skypilot": "sky.yaml", "gcluster": "gcluster.sh", "kinetic": "kinetic.py"}
#: What Kinetic can make, by our names of generations. Source: ``TPUS`` in its
#: ``core/accelerators.py`` (keras-kinetic 0.0.4); a test compares them.
_KINETIC = {
    "v3": "2x2 4x4 4x8 8x8 8x16 16x16 16x32 32x32 32x64",
    "v4": ("2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x8x8 8x8x8 8x8x16 8x16x16 16x16x16"),
    "v5e": "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    "v5p": "2x2x2 2x2x4 2x4x4",
    "v6e": "2x4 4x4",
}
#: What it runs on one node though it has more than four chips.
_KINETIC_ONE_NODE = {("v5e", "2x4")}
#: Kinetic removes the lines of these, unless they have its mark.
_KINETIC_REMOVES = re.compile(r"(?m)^((?:jax|jaxlib|libtpu|libtpu-nightly)(?![\w.-]).*)$")
#: gcluster cuts off what is longer.
_GCLUSTER_NAME = 28

#: For each tool on PyPI: its package there, its module and command, and a program that reads a file
#: with the tool's own parser and prints the tool's version.
_PARSERS = {
    "skypilot": (
        "skypilot",
        "sky",
        "import sky, sys; sky.Task.from_yaml(sys.argv[1]); print(sky.__version__)",
    ),
    "kinetic": (
        "keras-kinetic",
        "kinetic",
        """
import ast, sys
from importlib.metadata import version
from kinetic import run
from kinetic.core.accelerators import parse_accelerator
for node in ast.walk(ast.parse(open(sys.argv[1]).read())):
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "kinetic.run":
        options = {option.arg: ast.literal_eval(option.value) for option in node.keywords}
        parse_accelerator(options["accelerator"], options.get("spot", False))
        run(**options)
print(version("keras-kinetic"))
""",
    ),
}
#: Seconds for such a program; SkyPilot takes long to import.
_CHECK_LIMIT = 300


class ExportedJob:
    """A file for another tool. notes: what a person has to know of it."""

    def __init__(self, file_name: str, content: str, notes: list[str]) -> None:
        self.file_name = file_name
        self.content = content
        self.notes = notes


def export_job(
    job: Job,
    lock: EnvironmentLock | None,
    kind: AcceleratorType,
    to: Tool,
    project: str,
    *,
    tier: Tier,
) -> ExportedJob:
    """The file of a job for a tool.

    lock: the exact packages of its environment; None if it has none of ours. kind, tier: of the TPU
    that it ran on. project: the local folder with its files. Raises INVALID for what the tool can't
    do.
    """
    export = _Export(job, lock, kind, project, tier=tier)
    content = {"skypilot": export.skypilot, "gcluster": export.gcluster, "kinetic": export.kinetic}
    text = content[to](f"{export.name}.{_ENDINGS[to]}")
    return ExportedJob(f"{export.name}.{_ENDINGS[to]}", text, export.notes)


def check(to: Tool, path: Path) -> str:
    """Reads a file with the tool's own parser; a sentence that says how that was done, or why not.

    Raises INVALID with what the parser says against it.
    """
    if to not in _PARSERS:
        done = subprocess.run(["sh", "-n", str(path)], capture_output=True, text=True)
        if done.returncode:
            raise TPUError(f"The shell can't read {path}: {done.stderr.strip()}.", Reason.INTERNAL)
        return "Checked by the shell only: gcluster itself checks it when it submits the job."
    package, module, program = _PARSERS[to]
    python = _python_with(module)
    if python is None:
        return f"Not checked: {package} is not installed here (uv tool install {package})."
    done = subprocess.run(
        [python, "-c", SAFE_PATH + program, str(path)],
        capture_output=True,
        text=True,
        timeout=_CHECK_LIMIT,
    )
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines() or ["?"]
    if done.returncode:
        raise TPUError(
            f"{package} does not accept {path}: {lines[-1].rstrip('.')}.",
            Reason.INVALID,
            "Correct the file, or report this as a problem of jupyter-tpu.",
        )
    return f"Checked by {package} {lines[-1]}"


def _python_with(module: str) -> str | None:
    """A Python that has the tool: this one, or that of the tool's command."""
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    path = shutil.which(module)
    if path is None:
        return None
    with open(path, "rb") as file:
        first = file.readline(4096).decode("utf-8", "replace")
    python = first.removeprefix("#!").strip()
    return python if first.startswith("#!") and Path(python).is_file() else None


class _Export:
    def __init__(
        self,
        job: Job,
        lock: EnvironmentLock | None,
        kind: AcceleratorType,
        project: str,
        *,
        tier: Tier,
    ) -> None:
        self.job, self.kind, self.project, self.tier = job, kind, project, tier
        self.name = re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")[:40] or "job"
        if not self.name[0].isalpha():
            self.name = f"job-{self.name}"
        self.head = f"Made by jupyter-tpu from the job {job.id} ({self.name}) on {job.tpu}."
        self.python = ".".join(lock.python.split(".")[:2]) if lock else "3.12"
        self.packages = _for_tpus(lock.text) if lock else "jax[tpu]\n"
        self.torch = lock is not None and lock.framework == "torch"
        self.hosts = [host.host for host in job.attempts[-1].hosts]
        self.notes: list[str] = []
        if lock is None:
            self.notes.append(
                "The job ran without an environment of jupyter-tpu: only jax[tpu] is installed."
            )
        if job.variables:
            self.notes.append(
                f"The values of {', '.join(job.variables)} are not in the file. Set them there."
            )

    # ---- SkyPilot: docs.skypilot.co/en/latest/reference/yaml-spec.html

    def skypilot(self, file: str) -> str:
        if not self.kind.tpu_zones:
            raise InvalidInput(
                f"SkyPilot can't create a {self.kind.name}: it uses Cloud TPU, which does not have "
                "it.",
                "Use --to gcluster.",
            )
        self._note_tier("SkyPilot creates an on-demand TPU")
        task: dict[str, object] = {
            "name": self.name,
            "workdir": self.project,
            "resources": {
                "infra": f"gcp/{self.job.zone.rpartition('-')[0]}/{self.job.zone}",
                "accelerators": f"tpu-{self.kind.name}:1",
                "accelerator_args": {"runtime_version": self.kind.version},
                **({"use_spot": True} if self.tier == "spot" else {}),
            },
            "setup": f"{self._install('~/env')}\n",
            "run": self._script(
                "SKYPILOT_NODE_RANK", '$(echo "$SKYPILOT_NODE_IPS" | paste -sd ,)', "~/env"
            ),
        }
        self.notes.append(f"Run it: sky launch {file}")
        for variable in self.job.variables:
            self.notes.append(f"Add --secret {variable} to give the job {variable}.")
        return f"# {self.head}\n{_yaml(task)}"

    # ---- gcluster: docs.cloud.google.com/cluster-toolkit/docs/reference/gcluster-job-submit
    # The files of the build context are in the root folder of the image (pkg/imagebuilder).

    def gcluster(self, file: str) -> str:
        name = self.name
        if len(name) > _GCLUSTER_NAME:
            name = f"{name[: _GCLUSTER_NAME - len(self.job.id) - 1].rstrip('-')}-{self.job.id}"
        script = "\n".join(
            [
                "set -e",
                self._install("/tmp/env", "pip install -q uv\n"),
                self._script("TPU_WORKER_ID", "$TPU_WORKER_HOSTNAMES", "/tmp/env", "/"),
            ]
        )
        words = [
            "gcluster job submit",
            f"--name {name}",
            '--project "$PROJECT" --cluster "$CLUSTER" --location "$LOCATION"',
            f"--compute-type {self.kind.name}",
            f"--topology {self.kind.topology}",
            f"--base-image python:{self.python}-slim",
            f"--build-context {shlex.quote(self.project)}",
            *(f'--env {variable}="${variable}"' for variable in self.job.variables),
            '--command "$COMMAND"',
        ]
        self.notes.append(f"Run it: PROJECT=… CLUSTER=… LOCATION=… sh {file}")
        self.notes.append(
            "GCLUSTER_IMAGE_REPO names your Artifact Registry repository. Files that must not be "
            "in the image belong in .dockerignore."
        )
        if self.tier != "on-demand":
            self.notes.append(
                f"The job ran on a {self.tier} TPU. The node pool decides that in a cluster."
            )
        return "\n".join(
            [
                "#!/bin/sh",
                f"# {self.head}",
                "set -eu",
                ': "${PROJECT:?}" "${CLUSTER:?}" "${LOCATION:?}" "${GCLUSTER_IMAGE_REPO:?}"',
                *(f': "${{{variable}:?}}"' for variable in self.job.variables),
                "COMMAND=$(cat <<'END-OF-COMMAND'",
                script.rstrip(),
                "END-OF-COMMAND",
                ")",
                " \\\n  ".join(words),
                "",
            ]
        )

    # ---- Kinetic: keras-kinetic on PyPI

    def kinetic(self, file: str) -> str:
        generation, topology = self.kind.generation, self.kind.topology
        known = _KINETIC.get(generation, "").split()
        if topology not in known:
            raise InvalidInput(
                f"Kinetic can't create a {self.kind.name}: of {generation} it knows the topologies "
                f"{', '.join(known)}."
                if known
                else f"Kinetic does not know TPUs of the type {self.kind.name}."
            )
        one_node = self.kind.chips <= 4 or (generation, topology) in _KINETIC_ONE_NODE
        nodes = 1 if one_node else self.kind.chips // 4
        if nodes != self.kind.hosts:
            self.notes.append(
                f"Kinetic makes a {self.kind.name} of {nodes} nodes with 4 chips each. Here it has "
                f"{count(self.kind.hosts, 'host')}."
            )
        if nodes > 1:
            self.notes.append(
                "Kinetic runs a TPU with several hosts by Pathways: one process sees all chips. A "
                "call of jax.distributed.initialize() must go."
            )
            self.hosts = [0]
        self._note_tier("Kinetic creates an on-demand TPU")
        options = [f'accelerator="tpu-{self.kind.generation}-{self.kind.topology}"']
        if self.tier == "spot":
            options.append("spot=True")
        if self.job.variables:
            options.append(f"capture_env_vars={self.job.variables!r}")
        self.notes.append(
            f"Put the file into the project, and run it there: python {file}. While it runs, "
            "requirements.txt has the packages of the job, from which Kinetic builds its image. "
            "Your own comes back afterwards."
        )
        packages = _KINETIC_REMOVES.sub(r"\1  # kn:keep", self.packages.strip())
        return f'''"""{self.head}"""

import pathlib
import subprocess
import sys

COMMAND = {self.job.command!r}
PACKAGES = """\\
{packages}
"""

import kinetic


@kinetic.run({", ".join(options)})
def job():
    return subprocess.run(COMMAND).returncode


if __name__ == "__main__":
    requirements = pathlib.Path(__file__).with_name("requirements.txt")
    own = requirements.with_name("requirements.txt.own")
    if requirements.exists() and not own.exists():
        requirements.rename(own)
    try:
        requirements.write_text(PACKAGES)
        code = job()
    finally:
        requirements.unlink()
        if own.exists():
            own.rename(requirements)
    sys.exit(code)
'''

    # ---- what SkyPilot and gcluster have in common

    def _install(self, folder: str, first: str = "") -> str:
        """A script that makes the environment."""
        get_uv = first or "command -v uv || curl -LsSf https://astral.sh/uv/install.sh | sh\n"
        path = "" if first else 'export PATH="$HOME/.local/bin:$PATH"\n'
        return (
            f"{get_uv}{path}uv venv --python {self.python} {folder}\n"
            f"cat >~/.jupyter-tpu-packages.txt <<'END-OF-PACKAGES'\n{self.packages.strip()}\n"
            "END-OF-PACKAGES\n"
            f"uv pip install --python {folder}/bin/python --index-strategy unsafe-best-match "
            "-r ~/.jupyter-tpu-packages.txt"
        )

    def _note_tier(self, instead: str) -> None:
        if self.tier in ("reserved", "flex-start"):
            self.notes.append(f"The job ran on a {self.tier} TPU. {instead}, at its price.")

    def _script(self, rank: str, addresses: str, folder: str, where: str = "") -> str:
        """A script that runs the command on the hosts of the job, with a job's variables."""
        lines = [
            f'export PATH="$(echo {folder}/bin):$PATH"',
            f'export JUPYTER_TPU_HOST="${{{rank}:-0}}"',
            f'export JUPYTER_TPU_ADDRESSES="{addresses}"',
        ]
        if self.torch and len(self.hosts) == self.kind.hosts:
            lines += self._torchrun_variables()
        if len(self.hosts) < self.kind.hosts:
            chosen = "|".join(map(str, self.hosts))
            lines.append(f'case "$JUPYTER_TPU_HOST" in {chosen}) ;; *) exit 0 ;; esac')
        if where:
            lines.append(f"cd {where}")
        lines.append(shlex.join(self.job.command))
        return "\n".join(lines) + "\n"

    def _torchrun_variables(self) -> list[str]:
        """As jobs of an environment with PyTorch have them; the addresses are known there only."""
        marks = [f"@{host}@" for host in range(self.kind.hosts)]
        variables = dict(launch_variables(self.kind, range(self.kind.hosts), 0, marks))
        variables |= dict.fromkeys(("NODE_RANK", "PET_NODE_RANK"), "$JUPYTER_TPU_HOST")
        for host, mark in enumerate(marks):
            address = f'$(echo "$JUPYTER_TPU_ADDRESSES" | cut -d, -f{host + 1})'
            variables = {name: value.replace(mark, address) for name, value in variables.items()}
        return [f'export {name}="{value}"' for name, value in variables.items()]


def _for_tpus(lock: str) -> str:
    """The packages of a lock file, with JAX for TPUs: an emulated TPU's has it for the CPU.

    Each pin is in one index only or the same in all, so they are asked alike.
    """
    own = dict.fromkeys(filter(None, (split(line)[1] for line in lock.splitlines())))
    lock = "".join([*(f"--extra-index-url {index}\n" for index in own), lock])
    if re.search(r"(?m)^libtpu\b", lock):
        return lock
    return re.sub(r"(?m)^jax==", "jax[tpu]==", lock)


def _yaml(value: object) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1000)
