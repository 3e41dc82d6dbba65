"""The processes behind REST: jax's numbers, in turn, bounded, and gone when they should be."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import jax
import msgspec
import numpy as np
import psutil
import pytest
import pytest_asyncio
from children import children
from own_jax import optimized
from waiting import eventually

from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.jaxkit.rest.models import Answer, SampleAnswer, SplitAnswer
from jupyter_tpu.jaxkit.rest.pool import JaxWorker
from jupyter_tpu.jaxkit.sharding.models import Placement
from jupyter_tpu.jaxkit.tiles import TilingTable

# Where libtpu is installed jax would look for chips.
jax.config.update("jax_platforms", "cpu")

pytestmark = pytest.mark.asyncio(loop_scope="module")

Listing = Callable[[], list[psutil.Process]]
NORMAL = {"key": {"seed": 42}, "distribution": "normal", "shape": [3]}


def workers() -> list[psutil.Process]:
    """The worker processes of this one that are alive."""
    return children("jupyter_tpu.jaxkit.rest.worker")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worker() -> AsyncIterator[JaxWorker]:
    """Two processes for all tests that leave them well; starting one takes seconds."""
    made = JaxWorker(processes=2, seconds=300)  # a loaded machine needs more than 60
    yield made
    await made.close()
    assert workers() == []


@asynccontextmanager
async def alone(
    **options: Any,
) -> AsyncIterator[tuple[JaxWorker, Callable[[], list[psutil.Process]]]]:
    """A worker of one process for a test that ends it, and what lists its processes."""
    others = set(workers())
    made = JaxWorker(processes=1, **options)
    try:
        yield made, lambda: [process for process in workers() if process not in others]
    finally:
        await made.close()
    assert set(workers()) <= others


async def ask(worker: JaxWorker, name: str, body: Any, **options: Any) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await worker.request(name, raw, **options)


async def test_answers_are_jaxs_bit_for_bit_in_json_and_as_npy(worker: JaxWorker) -> None:
    sample = msgspec.json.decode((await ask(worker, "prng/sample", NORMAL)).body, type=SampleAnswer)
    own = optimized(lambda: jax.random.normal(jax.random.key(42), (3,)))
    assert np.array(sample.values, np.float32).tobytes() == own.tobytes()
    assert (sample.dtype, sample.shape) == ("float32", [3])
    assert (sample.key.implementation, sample.key.threefry_partitionable) == ("threefry2x32", True)

    large = await ask(worker, "prng/sample", {**NORMAL, "shape": [200, 100]})
    assert large.content_type == "application/x-npy"
    array = np.load(io.BytesIO(large.body))
    own = optimized(lambda: jax.random.normal(jax.random.key(42), (200, 100)))
    assert array.tobytes() == own.tobytes()
    assert json.loads(large.headers["Jax-Key"])["data"] == [0, 42]

    short = await ask(
        worker, "prng/sample", {**NORMAL, "shape": [4], "dtype": "bfloat16", "format": "npy"}
    )
    words = np.load(io.BytesIO(short.body))
    assert (short.headers["Jax-Dtype"], words.dtype) == ("bfloat16", np.uint16)
    expected = optimized(lambda: jax.random.normal(jax.random.key(42), (4,), jax.numpy.bfloat16))
    assert words.tobytes() == expected.tobytes()

    split = msgspec.json.decode(
        (await ask(worker, "prng/split", {"key": {"seed": 42}, "num": 2})).body, type=SplitAnswer
    )
    assert split.key.data == [1832780943, 270669613]
    assert split.subkeys == [[64467757, 2916123636], [2465931498, 255383827]]
    again = await ask(worker, "prng/split", {"key": {"data": split.key.data}, "num": 1})
    assert json.loads(again.body)["key"]["data"] != split.key.data

    plain = json.loads((await ask(worker, "prng/fold", {"key": {"seed": 0}, "data": [3]})).body)
    own_fold = jax.random.key_data(jax.random.fold_in(jax.random.key(0), 3))
    assert plain["data"] == np.asarray(own_fold).tolist()
    domain = json.loads(
        (
            await ask(worker, "prng/fold", {"key": {"seed": 0}, "data": [3], "domain": "dropout"})
        ).body
    )
    assert domain["data"] != plain["data"]


async def test_infinities_and_seeds_that_jax_truncates_are_reported(worker: JaxWorker) -> None:
    request = {
        "key": {"seed": 2**32 + 5},
        "distribution": "weibull_min",
        "shape": [2],
        "parameters": {"scale": 1.0, "concentration": 1e-9},
    }
    answer = json.loads((await ask(worker, "prng/sample", request)).body)
    assert set(map(str, answer["values"])) <= {"Infinity", "0.0"}
    assert answer["key"]["data"] == [0, 5]
    assert "low 32 bits" in answer["key"]["note"]


async def test_placement_and_tiling_answer_with_typed_bodies(worker: JaxWorker) -> None:
    body = {
        "mesh": {"data": 4, "model": 2},
        "arrays": {"w": {"shape": [4096, 1024], "dtype": "bfloat16", "spec": [None, "model"]}},
        "types": ["v5litepod-8", "v5litepod-4"],
        "picture": "w",
    }
    placed = msgspec.json.decode((await ask(worker, "placement", body)).body, type=Placement)
    assert placed.arrays[0].shard_shape == [4096, 512]
    assert [fit.fits for fit in placed.types] == [True, False]
    assert placed.picture is not None
    assert placed.picture.startswith("<svg")
    body["arrays"] = {"layers": {"tree": {"0": {"tree": body["arrays"]}}}}
    body["picture"] = f"layers/0/{body['picture']}"
    deep = msgspec.json.decode((await ask(worker, "placement", body)).body, type=Placement)
    assert [array.name for array in deep.arrays] == ["layers/0/w"]
    assert deep.bytes == placed.bytes
    assert deep.picture is not None
    tiles = msgspec.json.decode(
        (await ask(worker, "tiling", {"arrays": {"x": {"tree": {"y": {"shape": [3, 100]}}}}})).body,
        type=TilingTable,
    )
    assert tiles.arrays[0].layout == "{1,0:T(4,128)}"


@pytest.mark.parametrize(
    ("name", "body", "says"),
    [
        ("prng/sample", b'{"key": {"seed": NaN}}', "not JSON"),
        ("prng/sample", b"[" * 100_000, "got `array`"),
        (
            "prng/sample",
            b'{"key":{"seed":1},"distribution":"normal","parameters":{"a":' + b"[" * 100_000,
            "not JSON",
        ),
        ("prng/sample", b"", "not JSON"),
        ("prng/sample", b"\xff\xfe", "not JSON"),
        ("prng/sample", {**NORMAL, "extra": 1}, "unknown field `extra`"),
        ("prng/sample", {**NORMAL, "shape": ["n", 3]}, "Expected `int`, got `str`"),
        ("prng/sample", {**NORMAL, "shape": [-3]}, "from 0 to 2**53, not -3"),
        ("prng/sample", {**NORMAL, "shape": [1 << 40]}, "are allowed here"),
        ("prng/sample", {**NORMAL, "shape": [1 << 20, 1 << 20]}, "are allowed here"),
        ("prng/sample", {**NORMAL, "dtype": "float128"}, "Unknown dtype"),
        ("prng/sample", {**NORMAL, "distribution": "__class__"}, "Unknown distribution"),
        ("prng/sample", {**NORMAL, "parameters": {"key": 3}}, "no parameter 'key'"),
        ("prng/sample", {**NORMAL, "parameters": {"shape": [10**9]}}, "next to the parameters"),
        ("prng/sample", {**NORMAL, "shape": [1000, 1000], "format": "json"}, "too many for JSON"),
        ("prng/sample", {**NORMAL, "key": {}}, "either the seed or the data"),
        (
            "prng/sample",
            {**NORMAL, "key": {"seed": 1, "data": [0, 1]}},
            "either the seed or the data",
        ),
        ("prng/sample", {**NORMAL, "key": {"data": [0]}}, "are 2 numbers, not 1"),
        ("prng/sample", {**NORMAL, "key": {"seed": 10**30}}, "use that as the seed"),
        ("prng/sample", {**NORMAL, "key": {"seed": 1.5}}, "Expected `int"),
        ("prng/split", {"key": {"seed": 0}, "num": 1 << 30}, "too many for one answer"),
        ("prng/split", {"key": {"seed": 0}, "num": -1}, "it is -1"),
        ("prng/fold", {"key": {"seed": 0}, "data": [-1]}, "from 0 to 2**32 - 1"),
        (
            "placement",
            {"mesh": {"d": 3}, "arrays": {"x": {"shape": [4], "spec": ["d"]}}},
            "3 and 6",
        ),
        ("placement", {"mesh": {"d": 1 << 62}, "arrays": {}}, "larger than any TPU"),
        ("tiling", {"arrays": {"x": {"shape": [4]}}, "generation": "v9"}, "Invalid enum value"),
        ("tiling", {"arrays": {"x": {"tree": {"y": {}}}}}, "x/y needs either a shape or a tree"),
        (
            "tiling",
            {"arrays": {"a/b": {"shape": [1]}, "a": {"tree": {"b": {"shape": [2]}}}}},
            "Two arrays are called a/b",
        ),
        (
            "tiling",
            b'{"arrays": {"x": ' + b'{"tree":{"x":' * 900 + b'{"shape":[-1]}' + b"}}" * 901,
            "",
        ),
    ],
    ids=range(29),
)
async def test_bad_requests_get_one_sentence(
    worker: JaxWorker, name: str, body: Any, says: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await ask(worker, name, body)
    assert says in str(caught.value)
    assert caught.value.reason is Reason.INVALID


async def test_a_request_that_does_not_exist_is_not_found(worker: JaxWorker) -> None:
    with pytest.raises(TPUError) as caught:
        await ask(worker, "prng/shuffle", {})
    assert caught.value.reason is Reason.NOT_FOUND


@pytest.mark.long
async def test_memory_stays_bounded_whatever_is_asked(worker: JaxWorker) -> None:
    await ask(worker, "prng/sample", NORMAL)
    before = max(child.memory_info().rss for child in workers())
    requests = [
        {**NORMAL, "shape": [1 << 50]},
        {**NORMAL, "shape": [(1 << 22) + 1]},
        {**NORMAL, "shape": [1 << 22]},  # as large as is allowed
        {**NORMAL, "shape": [1 << 22], "dtype": "bfloat16"},
        {**NORMAL, "distribution": "choice", "parameters": {"a": 10**9, "replace": False}},
        {"key": {"seed": 0}, "distribution": "permutation", "parameters": {"x": 10**10}},
        {"key": {"seed": 0}, "distribution": "permutation", "parameters": {"x": 1 << 22}},
    ]
    results = await asyncio.gather(
        *(ask(worker, "prng/sample", request) for request in requests), return_exceptions=True
    )
    refused = [
        request
        for request, result in zip(requests, results, strict=True)
        if isinstance(result, TPUError) and "are allowed here" in str(result)
    ]
    assert refused == [requests[number] for number in (0, 1, 4, 5)]
    assert [type(results[number]) for number in (2, 3, 6)] == [Answer] * 3
    peaks = [peak_bytes(child.pid) for child in workers()]
    assert max(peaks, default=0) < before + (512 << 20)


def peak_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


async def test_a_hundred_requests_at_once_are_all_answered_and_the_loop_stays_free(
    worker: JaxWorker,
) -> None:
    await ask(worker, "prng/sample", NORMAL)
    gaps: list[float] = []

    async def heartbeat() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.005)
            now = time.thread_time()
            gaps.append(now - last)
            last = now

    beat = asyncio.create_task(heartbeat())
    answers = await asyncio.gather(
        *(
            ask(worker, "prng/sample", {**NORMAL, "key": {"seed": seed}}, client=f"c{seed % 7}")
            for seed in range(100)
        )
    )
    beat.cancel()
    values = [tuple(json.loads(answer.body)["values"]) for answer in answers]
    assert len(set(values)) == 100
    for seed in (0, 50, 99):
        own = optimized(lambda seed=seed: jax.random.normal(jax.random.key(seed), (3,)))
        assert np.array(values[seed], np.float32).tobytes() == own.tobytes()
    assert len(workers()) <= 2
    assert max(gaps) < 0.5


async def test_a_client_with_many_requests_does_not_hold_up_another(worker: JaxWorker) -> None:
    done: list[str] = []

    async def one(client: str) -> None:
        await ask(worker, "prng/sample", NORMAL, client=client)
        done.append(client)

    many = [asyncio.create_task(one("greedy")) for _ in range(200)]
    await eventually(lambda: len(done) >= 1)
    before = len(done)
    await one("modest")
    # Those at work when it came, and what was done before its own answer was read.
    assert done.index("modest") - before < 20
    await asyncio.gather(*many)
    assert len(done) == 201


#: A minute of work in small arrays.
ENDLESS = {
    "key": {"seed": 0},
    "distribution": "orthogonal",
    "parameters": {"n": 1400},
    "shape": [2],
    "format": "npy",
}


async def test_what_takes_too_long_is_ended_and_the_next_request_works() -> None:
    async with alone(seconds=3.0) as (worker, processes):
        with pytest.raises(TPUError) as caught:
            await ask(worker, "prng/sample", ENDLESS)
        assert caught.value.reason is Reason.TIMEOUT
        await eventually(lambda: processes() == [])
        assert json.loads((await ask(worker, "tiling", {"arrays": {}})).body)["arrays"] == []


async def test_cancelling_ends_the_process_at_work_and_gives_up_a_place_in_the_queue() -> None:
    async with alone(seconds=120) as (worker, processes):
        await ask(worker, "tiling", {"arrays": {}})
        (process,) = processes()
        before = sum(process.cpu_times()[:2])
        running = asyncio.create_task(ask(worker, "prng/sample", ENDLESS))
        waiting = asyncio.create_task(ask(worker, "prng/sample", NORMAL))
        await eventually(lambda: sum(process.cpu_times()[:2]) > before + 0.1)
        waiting.cancel()
        running.cancel()
        results = await asyncio.gather(running, waiting, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        await eventually(lambda: not process.is_running())
        assert (await ask(worker, "tiling", {"arrays": {}})).content_type == "application/json"


async def test_a_process_that_dies_fails_one_request_only() -> None:
    async with alone(seconds=120) as (worker, processes):
        await ask(worker, "tiling", {"arrays": {}})
        (process,) = processes()
        before = sum(process.cpu_times()[:2])
        running = asyncio.create_task(ask(worker, "prng/sample", ENDLESS))
        await eventually(lambda: sum(process.cpu_times()[:2]) > before + 0.1)
        process.kill()
        with pytest.raises(TPUError) as caught:
            await running
        assert caught.value.reason is Reason.INTERNAL
        assert (await ask(worker, "tiling", {"arrays": {}})).content_type == "application/json"


async def test_more_than_may_wait_are_refused_at_once_and_closing_refuses_the_rest() -> None:
    async with alone(waiting=3) as (worker, _):
        tasks = [asyncio.create_task(ask(worker, "tiling", {"arrays": {}})) for _ in range(8)]
        await eventually(lambda: sum(task.done() for task in tasks) >= 4)
        refused = [task.exception() for task in tasks if task.done()]
        assert [error.reason for error in refused] == [Reason.UNAVAILABLE] * 4
        await worker.close()
        rest = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(error, TPUError) for error in rest)
        with pytest.raises(TPUError, match="stopping"):
            await ask(worker, "tiling", {"arrays": {}})


async def test_a_process_without_work_ends() -> None:
    async with alone(idle_seconds=0.1) as (worker, processes):
        assert processes() == []
        await ask(worker, "tiling", {"arrays": {}})
        await eventually(lambda: processes() == [])


async def test_a_body_of_many_megabytes_is_refused_before_it_is_sent() -> None:
    async with alone() as (worker, processes):
        with pytest.raises(TPUError, match="are allowed"):
            await worker.request("tiling", b" " * (17 << 20))
        assert processes() == []
