"""The tables of docs/reference/versions.md: which Python gets which JAX and PyTorch, by uv today.

It asks the package index that uv is configured for, and installs nothing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from uv import find_uv_bin

from jupyter_tpu.environment.pythons import NEWEST, OLDEST

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "versions.md"
#: The packages of each table, and what is asked for. PyPI's PyTorch has the same numbers as the one
#: for the CPU.
TABLES = {
    ("jax", "jaxlib", "libtpu", "flax", "optax", "orbax-checkpoint", "numpy"): (
        "jax[tpu]\nflax\noptax\norbax-checkpoint\n"
    ),
    ("torch", "torch-tpu", "libtpu", "numpy"): "torch\ntorch_tpu\n",
}
#: The system of TPU hosts: Ubuntu 22.04 has glibc 2.35. Wheels of libtpu need 2.31.
PLATFORM = "x86_64-manylinux_2_31"
BEGIN, END = "<!-- made by scripts/versions.py -->", "<!-- made -->"


def resolve(python: str, requirements: str) -> dict[str, str]:
    """{package: version} of what a new environment with *python* gets."""
    command = [find_uv_bin(), "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate"]
    command += ["--python-version", python, "--python-platform", PLATFORM]
    done = subprocess.run(command, input=requirements, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"uv can't resolve it for Python {python}: {done.stderr.strip()}")
    return dict(re.findall(r"(?m)^([\w.-]+)(?:\[\w+\])?==(\S+)", done.stdout))


def tables() -> str:
    pythons = [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    made = []
    for packages, requirements in TABLES.items():
        with ThreadPoolExecutor(len(pythons)) as pool:
            resolved = list(pool.map(resolve, pythons, [requirements] * len(pythons)))
        made.append("\n".join(_lines(packages, dict(zip(pythons, resolved, strict=True)))))
    return "\n\n".join(made)


def _lines(packages: Sequence[str], resolved: dict[str, dict[str, str]]) -> Iterator[str]:
    yield f"| Python | {' | '.join(packages)} |"
    yield f"|{' --- |' * (len(packages) + 1)}"
    for python, versions in resolved.items():
        yield f"| {python} | {' | '.join(versions[package] for package in packages)} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    made, _, after = rest.partition(END)
    new = tables()
    if new in made:
        return 0
    if options.check:
        print(f"{PAGE.name} is out of date: run scripts/versions.py", file=sys.stderr)
        return 1
    date = f"Resolved on {datetime.now(UTC):%Y-%m-%d}:"
    PAGE.write_text(f"{before}{BEGIN}\n\n{date}\n\n{new}\n\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
