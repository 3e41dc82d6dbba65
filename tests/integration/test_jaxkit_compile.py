"""Compiling for TPUs that are not there: libtpu's own verdicts, watched, ended, explained."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import psutil
import pytest
from children import children
from jax.sharding import PartitionSpec as P
from waiting import eventually, until

from jupyter_tpu import catalog, jaxkit
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.jaxkit.arrays import ArrayRequest
from jupyter_tpu.jaxkit.compile.compiler import ENVIRONMENT, IDLE, compile_code
from jupyter_tpu.jaxkit.compile.models import CompileLimits, CompileRequest
from jupyter_tpu.jaxkit.compile.planner import row_of
from jupyter_tpu.jaxkit.topology import topology

pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")

# libtpu is for the compiler's process; this one traces only.
jax.config.update("jax_platforms", "cpu")

FILE = __file__
V5E = topology("v5litepod-8")
LIMITS = CompileLimits(seconds=150)


def step(params: dict[str, Any], batch: Any) -> Any:
    def loss(params):
        hidden = jnp.tanh(batch @ params["up"])
        hidden = jax.lax.with_sharding_constraint(hidden, P("data"))
        return jnp.mean((hidden @ params["down"]) ** 2)

    gradients = jax.grad(loss)(params)
    return jax.tree.map(lambda value, change: value - 0.1 * change, params, gradients)


PARAMS = {"up": (512, 1000), "down": (1000, 512)}


def compilers() -> list[psutil.Process]:
    """All but the one that waits for the next program."""
    if idle := IDLE.take():
        idle.end()
    return children("jupyter_tpu.jaxkit.compile.child")


def test_a_training_step_on_eight_chips_is_taken_apart() -> None:
    report = jaxkit.compile_for(
        "v5litepod-8",
        step,
        PARAMS,
        ((800, 512), "bfloat16"),
        mesh={"data": -1},
        in_shardings=(None, P("data")),
        donate_argnums=0,
        limits=LIMITS,
    )
    assert report.fits
    assert (report.devices_used, report.devices, report.hosts) == (8, 8, 1)
    assert report.libtpu_version.startswith("0.0.")
    # What the tiles say: the parameters whole, an eighth of the batch.
    rows = [jaxkit.padded_bytes(PARAMS["up"]), jaxkit.padded_bytes(PARAMS["down"])]
    batch = jaxkit.padded_bytes((100, 512), "bfloat16")
    assert report.argument_bytes == sum(rows) + batch
    assert report.aliased_bytes == sum(rows)  # donated
    assert report.needed_bytes is not None
    assert report.needed_bytes < report.hbm_bytes
    kinds = {row.kind: row for row in report.collectives}
    assert kinds["all-reduce"].bytes >= 2 * 512 * 1000 * 4
    assert {buffer.name for buffer in report.buffers if buffer.kind == "argument"} == {
        "argument 0/up",
        "argument 0/down",
        "argument 1",
    }
    text = str(report)
    assert repr(report) == text
    assert "Fits v5litepod-8" in text
    assert "counts the body of a loop" in text
    assert "<table>" in report._repr_html_()


@pytest.mark.long  # what it compares with changes with JAX only
def test_the_memory_figures_agree_with_jaxs_own_but_for_code_and_on_chip_values() -> None:
    large = {"up": (4096, 16384), "down": (16384, 4096)}
    report = jaxkit.compile_for(
        "v5litepod-1", step, large, (8192, 4096), mesh={"data": 1}, limits=LIMITS
    )
    assert report.needed_bytes is not None
    assert report.code_bytes is not None
    assert report.jax_peak_bytes is not None
    # What does not fit on the chip is in HBM: both count the same.
    assert report.needed_bytes - report.code_bytes == pytest.approx(report.jax_peak_bytes, rel=1e-3)
    assert report.temporary_bytes == pytest.approx(report.jax_temporary_bytes, rel=1e-3)
    small = jaxkit.compile_for("v5litepod-1", step, PARAMS, (800, 512), mesh={"data": 1})
    assert small.needed_bytes is not None
    assert small.code_bytes is not None
    assert small.jax_peak_bytes is not None
    # What fits on the chip takes no HBM: jax's peak counts it all the same.
    assert small.on_chip_bytes
    in_hbm = small.needed_bytes - small.code_bytes
    assert in_hbm < small.jax_peak_bytes
    assert "values in the chip's own memory" in str(small)


def flax_step() -> tuple[Any, Any, Any]:
    """A step, its model and its optimizer."""
    nnx = pytest.importorskip("flax.nnx")
    optax = pytest.importorskip("optax")

    class Model(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.linear = nnx.Linear(512, 512, use_bias=False, rngs=rngs)
            self.norm = nnx.BatchNorm(512, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.norm(self.linear(x))

    def train(model: Any, optimizer: Any, x: Any) -> Any:
        gradients = nnx.grad(lambda model: jnp.mean(model(x) ** 2))(model)
        optimizer.update(model, gradients)

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9), wrt=nnx.Param)
    return nnx.jit(train, donate_argnames="model"), model, optimizer


def test_a_step_of_flax_is_exported_with_the_names_of_its_fields() -> None:
    from jupyter_tpu.jaxkit.compile.export import export_program

    train, model, optimizer = flax_step()
    exported = export_program(train, [model, optimizer, (64, 512)], topology=V5E, mesh={"data": 8})
    donated = {exported.names[index] for index in exported.donated}
    assert "argument 0/linear/kernel/value" in donated
    assert {name.partition("/")[0] for name in donated} == {"argument 0"}
    assert isinstance(model.linear.kernel[...], jax.Array)  # the caller's model is as it was


@pytest.mark.long  # without the compiler: the test above
def test_a_step_of_flax_is_compiled_with_what_it_updates() -> None:
    train, model, optimizer = flax_step()
    report = jaxkit.compile_for(
        "v5e-8",
        train,
        model,
        optimizer,
        (64, 512),
        mesh={"data": -1},
        in_shardings=(None, None, P("data")),
        limits=LIMITS,
    )
    # Bytes in HBM: the matrix and its momentum, vectors of the norm and theirs, the step.
    weights = 512 * 512 * 4 + 4 * 512 * 4
    momentum = 512 * 512 * 4 + 2 * 512 * 4
    assert report.argument_bytes == weights + momentum + 512 + jaxkit.padded_bytes((8, 512))
    assert report.output_bytes == pytest.approx(weights + momentum + 512, abs=512)
    assert report.aliased_bytes == weights
    assert "argument 0/linear/kernel/value" in {buffer.name for buffer in report.buffers}
    assert isinstance(model.linear.kernel[...], jax.Array)  # the caller's model is as it was
    assert jaxkit.tiling_table(model).bytes == weights


def test_a_program_with_64_bits_is_compiled_with_64_bits() -> None:
    with jax.enable_x64(True):
        report = jaxkit.compile_for("v5e-1", lambda x: x + 1, ((256, 256), "float64"))
    assert report.argument_bytes == 256 * 256 * 8
    assert report.buffers[0].dtype == "float64"
    assert " GiB on the device.\n" in str(report)


def deep(x: Any) -> Any:
    def layer(hidden, _):
        hidden = jnp.tanh(hidden @ x.T @ x)
        return hidden, hidden  # keeps every step: too much

    return jax.lax.scan(layer, x, None, length=200)[1].sum()


def test_a_program_that_does_not_fit_says_what_it_needs_and_where_from() -> None:
    report = jaxkit.compile_for("v5litepod-1", jax.grad(deep), (8192, 8192), limits=LIMITS)
    assert not report.fits
    assert report.needed_bytes is not None
    assert report.needed_bytes > 40 * 2**30
    assert report.hbm_bytes == topology("v5litepod-1").hbm_bytes
    largest = report.buffers[0]
    assert largest.shape[0] == 200
    lines = Path(FILE).read_text().splitlines()
    first = lines.index("def deep(x: Any) -> Any:") + 1
    sources = [buffer.source for buffer in report.buffers]
    assert any(f"{FILE}:{number}" in sources for number in range(first, first + 8))
    assert "Does not fit v5litepod-1: needs" in str(report)


@pytest.mark.parametrize(
    ("name", "generation", "dtype"),
    [
        ("v6e-1", "v6e", "int8"),
        pytest.param("v3-8", "v3", "bfloat16", marks=pytest.mark.long),
        pytest.param("v5p-8", "v5p", "int4", marks=pytest.mark.long),
        pytest.param("tpu7x-2x2x1", "tpu7x", "float32", marks=pytest.mark.long),
    ],
)
def test_the_compilers_bytes_are_those_of_the_tiles(name, generation, dtype) -> None:
    shapes = [(n, m) for n in (1, 3, 12, 33, 100) for m in (1, 5, 127, 300)] + [(7, 3, 5), (9,), ()]
    report = jaxkit.compile_for(
        name,
        lambda *arrays: arrays[0],
        *((shape, dtype) for shape in shapes),
        limits=LIMITS,
    )
    padded = sum(jaxkit.padded_bytes(shape, dtype, generation) for shape in shapes)
    assert report.argument_bytes == padded
    assert report.padding_bytes is not None
    assert report.padding_bytes > 0


def test_collectives_in_a_loop_count_as_often_as_it_runs_on_several_hosts() -> None:
    def layers(weights, x):
        def layer(hidden, weight):
            return jnp.tanh(hidden @ weight), None

        return jax.lax.scan(layer, x, weights)[0]

    report = jaxkit.compile_for(
        "v4-16",
        layers,
        (6, 1024, 1024),
        (512, 1024),
        mesh={"data": 8},
        in_shardings=(P(None, "data"), P("data")),
        limits=LIMITS,
    )
    assert report.hosts == 2
    gathered = {row.kind: row for row in report.collectives}["all-gather"]
    assert gathered.count == 6
    assert not any("unknown length" in note for note in report.notes)


def test_a_cube_of_chips_is_compiled_for_with_its_wrap_around_links() -> None:
    """Without them the compiler reduces whole arrays: 96.5 GiB, of which 95.73 are there."""
    size = 131072
    report = jaxkit.compile_for(
        "v5p-128",
        lambda w, x: w - jax.grad(lambda w: jnp.mean((x @ w).astype(jnp.float32) ** 2))(w),
        ((size, size), "bfloat16"),
        ((512, size), "bfloat16"),
        mesh={"data": -1},
        in_shardings=P("data"),
        donate_argnums=0,
        limits=LIMITS,
    )
    assert report.fits
    assert report.needed_bytes is not None
    assert report.needed_bytes < 34 * 2**30
    tori = {kind.name for kind in catalog.types() if topology(kind.name).is_torus}
    assert tori >= {"v4-128", "v5p-128", "v5p-12288", "v5litepod-256", "v6e-256"}
    assert tori.isdisjoint({"v4-64", "v5p-8", "v5p-64", "v5litepod-64", "v6e-8", "v3-512"})
    assert topology("tpu7x-4x4x8").is_torus
    assert not topology("tpu7x-2x4x4").is_torus


def test_the_cheapest_type_that_fits_is_found_and_every_attempt_is_shown() -> None:
    tried: list[tuple[str, bool]] = []
    report = jaxkit.cheapest_type(
        lambda x: x * 2,
        (5 << 30,),
        types=["v5litepod-1", "v5litepod-4", "v5litepod-8"],
        mesh={"data": -1},
        in_shardings=P("data"),
        on_report=lambda report: tried.append((report.type, report.fits)),
        limits=LIMITS,
    )
    assert report.type == "v5litepod-4"
    assert tried == [("v5litepod-1", False), ("v5litepod-4", True)]


def test_types_the_mesh_does_not_divide_are_passed_over_and_none_fitting_says_by_how_much() -> None:
    with pytest.raises(TPUError, match="No type can run this program"):
        jaxkit.cheapest_type(
            lambda x: x, (9, 9), types=["v6e-4"], mesh={"data": -1}, in_shardings=P("data")
        )
    with pytest.raises(
        TPUError, match=r"fits none of 1 type; nearest is v6e-1: it needs .*31\.24 GiB"
    ):
        jaxkit.cheapest_type(lambda x: x * 2, (8 << 30,), types=["v6e-1"], limits=LIMITS)
    with pytest.raises(TPUError, match="Did you mean v5litepod-8"):
        jaxkit.cheapest_type(lambda x: x, (8,), types=["v6e-1", "v5e-7"])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: jaxkit.compile_for("v5e-7", lambda x: x, (4,)), "v5litepod-8"),
        (lambda: jaxkit.compile_for("v6e-1", lambda x: x @ x, (3, 4)), "does not trace: TypeError"),
        (lambda: jaxkit.compile_for("v6e-1", lambda x: int(x), (4,)), "jax.eval_shape fails with"),
        (
            lambda: jaxkit.compile_for("v6e-1", odd_blocks, (24, 128)),
            "odd_blocks can't be lowered for a TPU: ValueError: The Pallas TPU lowering",
        ),
        (lambda: jaxkit.compile_for("v6e-1", lambda x: x, (-3, 4)), "not -3"),
        (lambda: jaxkit.compile_for("v6e-1", lambda x: x, ((3,), "float33")), "Unknown dtype"),
        (lambda: jaxkit.compile_for("v6e-1", lambda x: x, "x"), "pass arrays, shapes and numbers"),
        (
            lambda: jaxkit.compile_for(
                "v6e-4", lambda x: x, (6,), mesh={"d": 4}, in_shardings=P("d")
            ),
            "argument 0 has 6 elements; d = 4 does not divide it",
        ),
        (lambda: jaxkit.compile_for("v6e-4", lambda x: x, (8,), mesh={"d": 3, "e": -1}), "divide"),
        (lambda: jaxkit.compile_for("v6e-4", lambda x: x, (8,), mesh={"d": 8}), "has 8 devices"),
        (
            lambda: jaxkit.compile_for("v6e-4", lambda x: x, (8,), in_shardings=(P(), P())),
            "does not match the tree",
        ),
        (lambda: jaxkit.compile_for("v6e-1", lambda x: x, (8,), donate_argnums=1), "to donate"),
        (
            lambda: jaxkit.compile_for("v6e-1", lambda x: jax.debug.print("{}", x), (8,)),
            "calls back into Python",
        ),
        (
            lambda: jaxkit.compile_for("v6e-1", lambda x: x.sum(), (1 << 53, 1 << 53)),
            "more than any memory holds",
        ),
        (
            lambda: jaxkit.compile_for("v6e-1", lambda x: jnp.outer(x, x).sum(), (1 << 40,)),
            "an array of 1099511627776 × 1099511627776 elements",
        ),
    ],
)
def test_mistakes_in_a_program_are_reported_before_anything_is_compiled(call, says) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert says in str(caught.value)
    assert caught.value.reason is Reason.INVALID


def odd_blocks(x: Any) -> Any:
    """A Pallas kernel that can be traced, but not lowered."""
    from jax.experimental import pallas

    def double(source: Any, result: Any) -> None:
        result[...] = source[...] * 2

    block = pallas.BlockSpec((3, 5), lambda number: (number, 0))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pallas.pallas_call(double, shape, grid=(8,), in_specs=[block], out_specs=block)(x)


def test_only_what_jax_eval_shape_refuses_too_is_said_to_be() -> None:
    with pytest.raises(InvalidInput) as caught:
        jaxkit.compile_for("v6e-1", odd_blocks, (24, 128))
    assert "eval_shape" not in caught.value.hint
    assert jax.eval_shape(odd_blocks, jax.ShapeDtypeStruct((24, 128), "float32")).shape == (24, 128)


def kernel(x: Any, **options: Any) -> Any:
    """A Pallas kernel that has all of its array in the chip's own memory."""
    from jax.experimental import pallas

    def double(source: Any, result: Any) -> None:
        result[...] = source[...] * 2

    return pallas.pallas_call(double, jax.ShapeDtypeStruct(x.shape, x.dtype), **options)(x)


def test_a_kernel_that_wants_too_much_vmem_is_not_too_little_hbm() -> None:
    with pytest.raises(InvalidInput, match=r"\(VMEM\) on v5litepod-1: .*This is not HBM") as caught:
        jaxkit.cheapest_type(kernel, (8192, 8192), types=["v5e-1", "v5e-4"], limits=LIMITS)
    assert "BlockSpecs" in caught.value.hint


def test_kernels_count_as_their_authors_say_and_may_ask_for_the_chip() -> None:
    from jax.experimental import pallas
    from jax.experimental.pallas import tpu

    estimate = pallas.CostEstimate(flops=10_000_000, bytes_accessed=9, transcendentals=0)

    def step(x: Any) -> Any:
        assert tpu.get_tpu_info().generation == 5
        if jax.default_backend() == "tpu":
            return x
        said = jax.lax.scan(lambda x, _: (kernel(x, cost_estimate=estimate), None), x, length=5)[0]
        return kernel(said)

    report = jaxkit.compile_for("v5litepod-1", step, (256, 256), limits=LIMITS)
    assert (report.custom_kernels, report.estimated_kernels) == (2, 1)
    assert report.flops is not None
    assert report.loop_flops is not None
    assert report.flops + report.loop_flops == pytest.approx(50_000_000, rel=1e-3)
    (note,) = report.notes
    assert "jax.default_backend()" in note
    row = row_of(report, None, None)
    assert {text.split()[0] for text in row.notes} == {"custom", "FLOPs"}
    assert jaxkit.compile_for("v5litepod-1", kernel, (256, 256), limits=LIMITS).flops == 0


def test_a_function_jitted_already_keeps_what_it_donates() -> None:
    from jupyter_tpu.jaxkit.compile.export import export_program

    jitted = jax.jit(step, donate_argnums=0)
    exported = export_program(jitted, [PARAMS, (8, 512)], topology=V5E, mesh={"data": 8})
    assert exported.donated == [0, 1]
    assert exported.names == ["argument 0/down", "argument 0/up", "argument 1"]


@pytest.mark.parametrize("dtype", ["key<fry>", "key<rbg>", "key<urbg>"])
def test_random_keys_are_arguments_by_their_dtype(dtype: str) -> None:
    from jupyter_tpu.jaxkit.compile.export import shape_specs

    (keys,) = shape_specs([((8,), dtype)])
    assert (keys.shape, str(keys.dtype)) == ((8,), dtype)


# ---- code, limits and the end of processes ----------------------------------------------------


def request(code: str, **options: Any) -> CompileRequest:
    shapes = options.pop("arguments", [ArrayRequest(shape=[8, 128])])
    return CompileRequest(
        type=options.pop("type", "v6e-1"),
        code=code,
        function="fn",
        arguments=shapes,
        limits=options.pop("limits", LIMITS),
        **options,
    )


@pytest.mark.asyncio
async def test_code_is_compiled_with_trees_of_arguments_and_its_lines_are_named() -> None:
    code = (
        "import jax.numpy as jnp\n"
        "print('chatter on stdout')\n"
        "def fn(params, x):\n"
        "    return jnp.tanh(x @ params['w']) @ params['w'].T\n"
    )
    tree = ArrayRequest(tree={"w": ArrayRequest(shape=[512, 8192], dtype="bfloat16")})
    batch = ArrayRequest(shape=[8192, 512], dtype="bfloat16", spec=["data"])
    outcome = await compile_code(
        request(code, arguments=[tree, batch], type="v6e-4", mesh={"data": -1}, donate=[1])
    )
    assert outcome.type == "v6e-4"
    report = outcome.report
    assert report.fits
    assert report.devices_used == 4
    assert report.aliased_bytes == 2048 * 512 * 2
    assert {buffer.name for buffer in report.buffers} >= {"argument 0/w", "argument 1"}


def another(code: str, says: str) -> Any:
    """A way to fail that is like one which is always tested: each is a process that imports JAX."""
    return pytest.param(code, says, marks=pytest.mark.long)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def fn(x:\n", "line 1: SyntaxError"),
        another("x = 1\nraise ValueError('no')\n", "line 2: ValueError: no"),
        another("import sys; sys.exit(3)", "ends the process"),
        ("import os; os._exit(3)", "ended with status 3"),
        another("import os; os.kill(os.getpid(), 11)", "ended with signal 11"),
        another("y = 1", "defines no function 'fn'"),
        ("def fn(x):\n    return x.nothing", "fn does not trace: AttributeError in line 2"),
        another("import no_such_module", "ModuleNotFoundError"),
        another("raise ValueError('\\ud800')", r"line 1: ValueError: \ud800"),
        another("x = '\0'", "null bytes"),
        another("input()", "EOFError"),
        another("def fn(x):\n    return fn(x)", "does not trace: RecursionError in line 2"),
        (
            "import jax\ndef fn(x):\n    return x\n"
            "jax.stages.Lowered.compile = lambda *_: {}['the cause']",
            "Compiling for v6e-1 failed: KeyError: 'the cause'",
        ),
        another(
            "import msgspec\ndef encode(answer):\n    error = ValueError('the cause')\n"
            "    error.add_note('For simplicity, JAX has removed its internal frames')\n"
            "    raise error\nmsgspec.json.encode = encode",
            "ended with status 1. Its message: ValueError: the cause",
        ),
    ],
)
@pytest.mark.asyncio
async def test_code_that_fails_is_an_error_with_its_line(code: str, says: str) -> None:
    with pytest.raises(TPUError) as caught:
        await compile_code(request(code))
    assert says in str(caught.value)
    assert compilers() == []


@pytest.mark.asyncio
async def test_code_that_never_returns_is_ended_with_all_it_started() -> None:
    mark = f"left behind {uuid.uuid4().hex}"
    code = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600) # {mark}'])\n"
        "while True:\n    print('x' * 10_000)\n"
    )
    with pytest.raises(TPUError) as caught:
        await compile_code(request(code, limits=CompileLimits(seconds=3)))
    assert caught.value.reason is Reason.TIMEOUT
    assert compilers() == []
    await eventually(
        lambda: not [p for p in psutil.process_iter(["cmdline"]) if mark in str(p.info)]
    )


@pytest.mark.asyncio
async def test_code_that_eats_memory_is_ended_at_its_limit() -> None:
    code = "eaten = []\nwhile True:\n    eaten.append(bytearray(1 << 24))\n"
    limits = CompileLimits(seconds=60, memory_bytes=1 << 29)
    before = psutil.Process().memory_info().rss
    with pytest.raises(TPUError, match=r"more than 0\.5 GiB") as caught:
        await compile_code(request(code, limits=limits))
    assert caught.value.reason is Reason.INVALID
    assert psutil.Process().memory_info().rss - before < 200 << 20


@pytest.mark.asyncio
async def test_cancelling_ends_the_compiler_and_the_loop_was_free_all_the_time() -> None:
    task = asyncio.create_task(compile_code(request("while True: pass")))
    deadline = time.monotonic() + 60
    longest = 0.0
    while not compilers():
        assert time.monotonic() < deadline
        started = time.thread_time()
        await asyncio.sleep(0.02)
        longest = max(longest, time.thread_time() - started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert compilers() == []
    assert longest < 1


def test_interrupting_a_cell_ends_the_compiler() -> None:
    def interrupt() -> None:
        until(compilers)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        jaxkit.compile_for("v6e-8", lambda x: jnp.sort(x, axis=0) @ x, (4096, 4096))
    thread.join()
    until(lambda: compilers() == [])


def test_without_libtpu_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_tpu.jaxkit.compile import compiler

    monkeypatch.setattr(compiler, "find_spec", lambda name: None)
    with pytest.raises(TPUError, match="jupyter-tpu\\[compile\\]") as caught:
        jaxkit.compile_for("v6e-1", lambda x: x, (4,))
    assert caught.value.reason is Reason.ENVIRONMENT
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(TPUError, match="only for Linux on x86-64"):
        jaxkit.compile_for("v6e-1", lambda x: x, (4,))


def test_libtpu_knows_the_topology_of_every_type_in_the_catalog() -> None:
    code = (
        "from jax.experimental import topologies\n"
        "from jupyter_tpu import catalog\n"
        "from jupyter_tpu.jaxkit.topology import topology\n"
        "names = [t.name for t in catalog.types() if t.devices <= 512] + ['tpu7x-2x2x1']\n"
        "for name in names:\n"
        "    t = topology(name)\n"
        "    options = {'topology_name': t.name, 'platform': 'tpu', **t.options}\n"
        "    found = topologies.get_topology_desc(**options)\n"
        "    hosts = len({d.process_index for d in found.devices})\n"
        "    assert (len(found.devices), hosts) == (t.devices, t.hosts), (name, hosts)\n"
        "print(len(names))\n"
    )
    environment = {**ENVIRONMENT, "PATH": "/usr/bin"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert int(run.stdout) == len([t for t in catalog.types() if t.devices <= 512]) + 1
