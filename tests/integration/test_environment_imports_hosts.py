"""Packages that do not fit together, and locks for another Python: what is said and done."""

from pathlib import Path

import pytest

from jupyter_tpu.environment import packages
from jupyter_tpu.errors import Reason, TPUError

#: The first line of a lock, as `env lock` writes it, for a Python that nobody can have.
LOCKED = "# default on old-tpu (v4-8): Python 3.99.1, 2026-01-01T00:00:00Z\n"


def minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


async def test_an_old_flax_beside_todays_jax_is_named_with_what_fits_and_that_is_taken(on_new_tpu):
    making = on_new_tpu()
    made = await making.make(packages=["flax==0.12.8"])
    if minor(made.python) < (3, 12):
        pytest.skip("JAX for this Python is old enough for flax 0.12.8")
    assert made.warning is not None
    assert made.warning.message == (
        f"flax 0.12.8 does not work with jax {made.jax}: `import flax.nnx` fails on host 0 with "
        "AttributeError: module 'jax.experimental.hijax' has no attribute 'HiPrimitive'."
    )
    assert made.warning.hint == "Ask for flax>0.12.8 instead of flax==0.12.8, or for an older jax."
    assert any("class NewVariable(hjx.HiPrimitive)" in line for line in making.log), making.log

    # Connecting again says it again, and a lock, too, until it is changed.
    again = await packages.import_failure(making.link, "default")
    assert again is not None
    assert again.message == made.warning.message
    changed = await making.make(packages=["flax>0.12.8"])
    assert changed.warning is None
    assert await packages.import_failure(making.link, "default") is None
    nnx = "from flax import nnx; print(nnx.__name__)"
    assert await making.run(f"{made.path}/bin/python", "-c", nnx) == "flax.nnx"


async def test_a_lock_for_a_python_that_cant_be_had_is_refused_or_resolved_again(on_new_tpu):
    making = on_new_tpu()
    lock = LOCKED + "einops==0.7.0\n"
    with pytest.raises(TPUError, match=r"^The lock was made for Python 3\.99, which is") as error:
        await making.make(lock=lock)
    assert error.value.reason is Reason.ENVIRONMENT
    assert error.value.hint.startswith("Give packages instead of the lock")

    made = await making.make(lock=lock, packages=["einops"], resolve_again=True)
    assert made.warning is not None
    assert made.warning.message == (
        "The hosts don't have Python 3.99, for which the earlier versions of default were, so its "
        f"packages got new versions, for Python {made.python}."
    )
    assert "einops==0.7.0" not in made.lock
    assert "einops==" in made.lock
    with pytest.raises(TPUError, match=r"has Python [\d.]+, and the lock was made for 3\.99"):
        await making.make(lock=lock)


@pytest.mark.long
@pytest.mark.skipif(not Path("/usr/bin/python3.11").exists(), reason="hosts have another Python")
async def test_a_host_with_an_old_python_gets_a_newer_one_or_a_word(on_new_tpu):
    made = await on_new_tpu(without_python_tools="true").make()
    if minor(made.python) >= (3, 12):
        assert made.warning is None
    else:
        assert made.warning is not None
        assert made.warning.message == (
            f"JAX {made.jax} is old: it is the newest for Python {made.python}. Python 3.12 is not "
            "on the hosts, and uv could not download it."
        )
