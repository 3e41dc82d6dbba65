"""What the TPU's compiler of this Python says: topologies, HBM limits, layouts, names it knows.

`compiler_facts.py` runs it in environments with a JAX and a libtpu, and without jupyter_tpu. The
questions come on stdin, the answers go to stdout, both as JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

# No TPU is looked for, and libtpu does not warn that there is none.
os.environ.update(
    JAX_PLATFORMS="cpu",
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="v5litepod-8",
    TPU_MIN_LOG_LEVEL="3",
)


def topology(name: str, options: dict[str, Any]) -> Any:
    from jax.experimental import topologies

    options = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
    return topologies.get_topology_desc(name, platform="tpu", **options)


def describe(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """The devices and hosts of a topology, or the error."""
    try:
        devices = topology(name, options).devices
    except Exception as error:
        return {"error": str(error).splitlines()[0]}
    hosts = {device.process_index for device in devices}
    return {"devices": len(devices), "hosts": len(hosts), "kind": devices[0].device_kind}


def shaped(device: Any, shape: list[int], dtype: str) -> Any:
    import jax
    import jax.numpy as jnp

    placed = jax.sharding.SingleDeviceSharding(device)
    return jax.ShapeDtypeStruct(tuple(shape), jnp.dtype(dtype), sharding=placed)


def hbm_limit(device: Any) -> str:
    """What the compiler says is there, such as "15.75G", when it refuses 2 TiB."""
    import jax

    try:
        jax.jit(lambda x: x + 1).lower(shaped(device, [1 << 19, 1 << 20], "float32")).compile()
    except Exception as error:
        match = re.search(r"exceeds available HBM \(([\d.]+G)\)", str(error))
        return match[1] if match else str(error).splitlines()[0]
    return "2 TiB fit"


def layouts(device: Any, shapes: list[list[int]], dtype: str) -> dict[str, Any]:
    """The layout of each argument of a program, and the bytes of all of them; or the error."""
    import jax

    try:
        arguments = [shaped(device, shape, dtype) for shape in shapes]
        compiled = jax.jit(lambda *_: (), keep_unused=True).lower(*arguments).compile()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    head = (compiled.as_text() or "").partition("\n")[0]
    analysis: Any = compiled.memory_analysis()
    written = re.search(r"entry_computation_layout=\{\((.*?)\)->", head)
    text = re.sub(r"/\*.*?\*/", "", written[1] if written else "")
    return {
        "layouts": re.findall(r"[a-z]\w*\[[^\]]*\](\{[^}]*\}|)", text),
        "bytes": analysis.argument_size_in_bytes,
    }


def chips() -> dict[str, dict[str, float]]:
    """What JAX's sources say of a chip of each generation: bytes, bytes a second, FLOP/s."""
    from jax.experimental.pallas import tpu

    said = {}
    for version in tpu.ChipVersion:
        cores = version.num_physical_tensor_cores_per_chip
        info = tpu.get_tpu_info_for_chip(version, cores if version.supports_megacore else 1)
        said[str(version)] = {
            "hbm": cores * info.hbm_capacity_bytes,
            "hbm_bytes": cores * info.mem_bw_bytes_per_second,
            "bf16_flops": cores * info.bf16_ops_per_second,
        }
    return said


def named(names: list[str]) -> list[str]:
    """Those of *names* that are in libtpu's own file."""
    import libtpu

    with (Path(libtpu.__file__).parent / "libtpu.so").open("rb") as file:
        text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return [name for name in names if text.find(name.encode()) >= 0]


def main() -> None:
    questions = json.load(sys.stdin)
    import jax

    jax.config.update("jax_enable_x64", True)
    devices = {
        generation: topology(*where).devices[0]
        for generation, where in questions["smallest"].items()
    }
    answers = {
        "jax": metadata.version("jax"),
        "libtpu": metadata.version("libtpu"),
        "topologies": {type_: describe(*where) for type_, where in questions["topologies"].items()},
        "hbm": {generation: hbm_limit(device) for generation, device in devices.items()},
        "layouts": {
            f"{generation}/{dtype}": layouts(device, questions["shapes"], dtype)
            for generation, device in devices.items()
            for dtype in questions["dtypes"]
        },
        "chips": chips(),
        "names": named(questions["names"]),
    }
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
