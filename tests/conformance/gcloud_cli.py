"""The real gcloud, pointed at an emulator by nothing but the ``--env`` lines."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jupyter_tpu.emulator import environment_lines


class Gcloud:
    """gcloud with a home and a configuration of its own; each call and its output is printed.

    *zone* is given to all calls of `tpus`.
    """

    def __init__(self, emulator: Any, folder: Path, zone: str) -> None:
        lines = environment_lines(emulator.state)
        self.zone = zone
        self.home = folder / "home"
        self.home.mkdir()
        self.environment = {
            **os.environ,
            **dict(shlex.split(line)[1].split("=", 1) for line in lines),
            "HOME": str(self.home),
            "CLOUDSDK_CONFIG": str(folder / "gcloud"),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        }

    def run(
        self, *arguments: str, track: Sequence[str] = (), fails: bool | None = False
    ) -> subprocess.CompletedProcess[str]:
        """``gcloud TRACK ARGUMENTS``, which has to succeed, or to fail; None: either."""
        command = ["gcloud", *track, *arguments]
        done = subprocess.run(
            command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
        )
        print("$", shlex.join(command), f"→ {done.returncode}\n{done.stdout}{done.stderr}")
        assert fails is None or (done.returncode != 0) == fails, done.stderr
        return done

    def tpus(
        self, *arguments: str, alpha: bool = False, fails: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """``gcloud compute tpus …`` in the zone."""
        return self.run(
            *("compute", "tpus", *arguments, f"--zone={self.zone}"),
            track=["alpha"] if alpha else [],
            fails=fails,
        )

    def json(self, *arguments: str, alpha: bool = False) -> Any:
        """What ``gcloud compute tpus …`` prints as JSON."""
        done = self.tpus(*arguments, "--format=json", alpha=alpha)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def compute(self, *arguments: str) -> Any:
        """What ``gcloud compute …`` prints as JSON."""
        done = self.run("compute", *arguments, "--format=json")
        return json.loads(done.stdout) if done.stdout.strip() else None
