"""Which names `%tpu memory` finds for arrays, and that looking for them keeps none alive."""

import collections
import functools
import gc
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from jupyter_tpu.on_host.agent.keeper import jax_memory

State = collections.namedtuple("State", "params step")  # as those of optax


def names(**variables: Any) -> dict[int, list[tuple[str, str]]]:
    """What is found where a notebook has these variables."""
    shell = SimpleNamespace(user_ns=variables, InteractiveTB=SimpleNamespace(tb=None))
    return jax_memory.names_of(shell, jax)


def closing_over(array: Any) -> Any:
    return lambda: array


def failed(array: Any) -> Exception:
    try:
        raise ValueError("no")
    except ValueError as error:
        return error


def test_an_array_has_the_path_by_which_the_user_reaches_it():
    arrays = [jnp.zeros(3) + number for number in range(7)]
    model = SimpleNamespace(layers=[{"w": arrays[0]}])
    model.itself = model
    paths = names(
        model=model,
        state=State({"b": arrays[1]}, 3),
        last=collections.deque([arrays[2]]),
        f=functools.partial(print, arrays[3]),
        g=closing_over(arrays[4]),
        error=failed(arrays[5]),
        _mine=arrays[6],
        _i1="arrays",
    )
    assert [paths[id(array)] for array in arrays] == [
        [("named", name)]
        for name in (
            "model.layers[0]['w']", "state.params['b']", "last[0]", "f.args[0]", "g (array in it)",
            "error (array in failed())", "_mine",
        )
    ]  # fmt: skip


def test_looking_at_a_function_that_runs_keeps_none_of_its_variables():
    begun, release, released, end = (threading.Event() for _ in range(4))
    held: list[Any] = []

    def work() -> None:
        array = jnp.zeros((3, 3))
        held.append(weakref.ref(array))
        begun.set()
        release.wait()
        array = None
        released.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    assert names()[id(held[0]())] == [("running", "array in work()")]
    release.set()
    released.wait()
    gc.collect()
    assert held[0]() is None
    end.set()
    thread.join()


def test_arrays_on_the_host_take_no_memory_of_a_device_and_four_bits_half_a_byte() -> None:
    on_device = jnp.zeros((8, 128))
    assert list(jax_memory.sizes_of(on_device).values()) == [4096]
    assert jax_memory.sizes_of(jax.device_put(on_device, jax.memory.Space.Host)) == {}
    assert list(jax_memory.sizes_of(jnp.zeros((8, 128), jnp.int4)).values()) == [512]
