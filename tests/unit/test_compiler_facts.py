"""The script that compares our tables with the compiler's: what it calls wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jupyter_tpu import catalog

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import compiler_facts


def as_the_tables() -> dict[str, Any]:
    """What a compiler would say that agrees with all tables, but for layouts."""
    refused = {"error": "Invalid TPU external name"}
    return {
        "topologies": {
            **{
                kind.name: {"devices": kind.devices, "hosts": kind.hosts}
                for kind in catalog.types()
            },
            **dict.fromkeys(("tpu8t", "tpu8i"), refused),
        },
        "hbm": {"v5e": "15.75G", "v5p": "95.74G"},
        "layouts": {},
        "names": compiler_facts.questions()["names"],
    }


def test_a_table_that_is_wrong_for_a_compiler_is_named() -> None:
    said = as_the_tables()
    assert list(compiler_facts.differences(said)) == []
    said["topologies"]["v5p-8"] = {"devices": 8, "hosts": 1}
    said["topologies"]["tpu8i"] = {"devices": 8, "hosts": 1}
    said["hbm"] = {"v5e": "15.74G", "v6e": "31.30G"}
    said["names"].remove("TPU_VISIBLE_CHIPS")
    layout = {"layouts": ["{0:T(1)}"] * len(compiler_facts.questions()["shapes"]), "bytes": 1}
    said["layouts"] = {"v5e/float32": layout, "v5e/int8": {"error": "no such type"}}
    found = list(compiler_facts.differences(said))
    for line, start in zip(
        found,
        (
            "v5p-8: 4 devices on 1 hosts; it says",
            "tpu8i is known now",
            "HBM of v5e: 15.75 GiB; it says 15.74G",
            "HBM of v6e: 31.24 GiB; it says 31.30G",
            "layouts of v5e/float32: ",
            "layouts of v5e/int8: no such type",
            "libtpu does not have the name TPU_VISIBLE_CHIPS",
        ),
        strict=True,
    ):
        assert line.startswith(start)
