"""Compares this project's tables of TPUs with what two pairs of JAX and libtpu say, without a TPU.

    compiler_facts.py PYTHON3.11 PYTHON3.13     # for the pairs below; `make release` runs it
    compiler_facts.py --here                    # the pair that is installed beside this project

Compared are: every type of the catalog and its devices and hosts; the HBM that a program may use;
the layouts and bytes of arrays of all dtypes; the peak figures; the variables and metrics that
libtpu has to know; and that it does not know what the planner refuses. The exit code is 1 if a
table is wrong for a pair. With --write, the table in docs/notebooks/jaxkit.md is made again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from jupyter_tpu import catalog, jaxkit
from jupyter_tpu.catalog.tables import ANNOUNCED, GENERATIONS
from jupyter_tpu.environment import single_host_variables
from jupyter_tpu.jaxkit.shapes import BITS
from jupyter_tpu.jaxkit.topology import topology, usable_hbm
from jupyter_tpu.on_host.agent.metrics import libtpu as metrics
from jupyter_tpu.on_host.agent.protocol.chosen_chips import chip_variables

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs/notebooks/jaxkit.md"
BEGIN, END = "<!-- made by scripts/compiler_facts.py -->", "<!-- end -->"
#: JAX and libtpu: the newest for Python 3.11, and the newest that the tables were compared with.
PAIRS = (("0.10.2", "0.0.42.1"), ("0.12.0.1", "0.0.50.1"))
#: How JAX's sources call a generation.
JAX_NAMES = {"tpu7x": "7x"}
#: Shapes of more ranks than those that the tests have.
MORE_SHAPES = ([3, 5, 7, 300], [2, 3, 4, 5, 130], [2, 1, 3, 1, 9, 33], [2, 2, 2, 2, 2, 2, 129])
#: Elements of an array: all of them are arguments of one program, which has to fit v2.
LARGEST = 1 << 22
#: Not in these two: recipes for older ones have them.
OLD_NAMES = ("TPU_MESH_CONTROLLER_ADDRESS", "TPU_MESH_CONTROLLER_PORT")
#: A host's chips of generations that are announced, as JAX 0.12's sources have them.
ANNOUNCED_SHAPES = {"tpu8t": "2x2x1", "tpu8i": "4x1x1"}
#: libtpu rounds its limits to so many GiB, and not always in the same way.
ROUNDING = 0.011
#: Peak figures of two sources that differ by more than this are shown.
PEAKS_DIFFER = 0.03


class Pair(NamedTuple):
    """What one pair said, and where a table says otherwise."""

    said: dict[str, Any]
    differences: list[str]

    @property
    def name(self) -> str:
        return f"jax {self.said['jax']} with libtpu {self.said['libtpu']}"


def questions() -> dict[str, Any]:
    types = {kind.name: topology(kind.name) for kind in catalog.types()}
    shapes = json.loads((HERE.parent / "tests/unit/jaxkit_layouts.json").read_text())["shapes"]
    variables = {**chip_variables([0], 4, "v3", {}), **single_host_variables(2)}
    described = {name: (where.name, where.options) for name, where in types.items()}
    smallest: dict[str, Any] = {}
    for name, where in types.items():
        smallest.setdefault(where.generation, described[name])
    announced = {
        name: (f"{name}:{shape}", dict[str, Any]()) for name, shape in ANNOUNCED_SHAPES.items()
    }
    return {
        "topologies": {**described, **announced},
        "smallest": smallest,
        "shapes": [*(shape for shape in shapes if prod(shape) <= LARGEST), *MORE_SHAPES],
        "dtypes": list(BITS),
        "names": [*sorted(set(variables) - set(OLD_NAMES)), *metrics.METRICS],
    }


def ask(command: list[str]) -> dict[str, Any]:
    result = subprocess.run(
        [*command, str(HERE / "compiler_probe.py")],
        input=json.dumps(questions()),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{result.stderr[-3000:]}")
    answers: dict[str, Any] = json.loads(result.stdout[result.stdout.index("{") :])
    return answers


def differences(said: dict[str, Any]) -> Iterator[str]:
    asked = questions()
    for kind in catalog.types():
        found = said["topologies"][kind.name]
        if found.get("error") or (found["devices"], found["hosts"]) != (kind.devices, kind.hosts):
            yield f"{kind.name}: {kind.devices} devices on {kind.hosts} hosts; it says {found}"
    for name in ANNOUNCED:
        if "error" not in said["topologies"][name]:
            yield f"{name} is known now: the catalog and the planner can have it"
    for generation, limit in said["hbm"].items():
        table = usable_hbm(generation) / 2**30
        if not limit.endswith("G") or not 0 <= float(limit[:-1]) - table + 1e-6 <= ROUNDING:
            yield f"HBM of {generation}: {table:.2f} GiB; it says {limit}"
    for name, found in said["layouts"].items():
        if "error" in found:
            yield f"layouts of {name}: {found['error']}"
            continue
        generation, dtype = name.split("/")
        rows = [jaxkit.tiling(shape, dtype, generation) for shape in asked["shapes"]]
        wrong = [
            f"{row.shape} {row.layout}, not {theirs}"
            for row, theirs in zip(rows, found["layouts"], strict=True)
            if row.layout != theirs
        ]
        if wrong:
            yield f"layouts of {name}: {len(wrong)} of {len(rows)} differ, such as {wrong[0]}"
        elif sum(row.padded_bytes for row in rows) != found["bytes"]:
            yield f"bytes of {name}: they differ though the layouts don't"
    for name in sorted(set(asked["names"]) - set(said["names"])):
        yield f"libtpu does not have the name {name}"


def table(pairs: list[Pair]) -> str:
    """The table of the documentation."""
    heads = ["", "devices a chip"]
    heads += [f"HBM for a program, libtpu {pair.said['libtpu']}" for pair in pairs]
    heads += ["HBM a second: Google's page, JAX's sources", "bf16: Google's page, JAX's sources"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for generation in GENERATIONS:
        name = generation.name
        theirs = pairs[-1].said["chips"][JAX_NAMES.get(name, name)]
        ours = catalog.chip_peak(name)
        cells = [name, str(generation.devices_per_chip)]
        cells += [f"{pair.said['hbm'][name][:-1]} GiB" for pair in pairs]
        for unit, field, scale in (("GB/s", "hbm_bytes", 1e9), ("TFLOP/s", "bf16_flops", 1e12)):
            figures = [f"{getattr(ours, field) / scale:,.0f}" if ours else "–"]
            cells.append(f"{figures[0]}, {theirs[field] / scale:,.0f} {unit}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def peaks(said: dict[str, Any]) -> Iterator[str]:
    """Where Google's pages and JAX's sources differ: shown, since neither is ours to correct."""
    for generation in GENERATIONS:
        ours = catalog.chip_peak(generation.name)
        theirs = said["chips"].get(JAX_NAMES.get(generation.name, generation.name))
        for field in ("hbm_bytes", "bf16_flops") if ours and theirs else ():
            one, other = getattr(ours, field), theirs[field]
            if abs(one - other) > PEAKS_DIFFER * one:
                yield f"{generation.name}: {field} {one:.4g} on Google's page, {other:.4g} in JAX"


def write(pairs: list[Pair]) -> None:
    text = PAGE.read_text()
    before, found, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not found or not end:
        sys.exit(f"{PAGE} has no {BEGIN} and {END}.")
    PAGE.write_text(f"{before}{BEGIN}\n{table(pairs)}\n{END}{after}")


def commands(arguments: argparse.Namespace) -> list[list[str]]:
    if arguments.here:
        return [[sys.executable]]
    if len(arguments.pythons) != len(PAIRS):
        sys.exit(f"Name {len(PAIRS)} Pythons, one for each pair, or use --here.")
    uv = [str(Path(sys.executable).parent / "uv"), "run", "--quiet", "--no-project", "--isolated"]
    return [
        [*uv, "--python", python, "--with", f"jax=={jax}", "--with", f"libtpu=={libtpu}", "python"]
        for python, (jax, libtpu) in zip(arguments.pythons, PAIRS, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pythons", nargs="*")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    pairs = []
    for command in commands(arguments):
        said = ask(command)
        pairs.append(pair := Pair(said, list(differences(said))))
        count = sum(len(found.get("layouts", ())) for found in said["layouts"].values())
        print(
            f"{pair.name}: {len(said['topologies'])} topologies, {len(said['hbm'])} HBM limits, "
            f"{count:,} layouts, {len(said['names'])} names; {len(pair.differences)} differences"
        )
        for line in pair.differences:
            print(f"  wrong: {line}")
        for line in peaks(said):
            print(f"  sources differ: {line}")
    if arguments.write:
        write(pairs)
    sys.exit(1 if any(pair.differences for pair in pairs) else 0)


if __name__ == "__main__":
    main()
