"""Sampling on the CPU: jax's numbers bit for bit, and nothing too large is ever begun."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jaxkit_here  # noqa: F401
import numpy as np
import pytest

from jupyter_tpu.errors import TPUError
from jupyter_tpu.jaxkit.rest import sampling

KEY = jax.random.key(42)

#: Drawn through gamma's loops, or as binomial is, and slow to compile. Poisson's known vector is
#: checked below.
LIKE_OTHERS = {
    "ball", "beta", "chisquare", "dirichlet", "f", "generalized_normal", "loggamma", "multinomial",
    "poisson", "t",
}  # fmt: skip

#: Parameters for every distribution that needs some.
PARAMETERS: dict[str, dict] = {
    "ball": {"d": 3},
    "beta": {"a": 2.0, "b": 3.0},
    "binomial": {"n": 5, "p": 0.5},
    "categorical": {"logits": [0.0, 1.0, 2.0]},
    "chisquare": {"df": 3.0},
    "choice": {"a": 10},
    "dirichlet": {"alpha": [1.0, 2.0]},
    "double_sided_maxwell": {"loc": 0.0, "scale": 1.0},
    "f": {"dfnum": 2.0, "dfden": 3.0},
    "gamma": {"a": 2.0},
    "generalized_normal": {"p": 1.5},
    "geometric": {"p": 0.3},
    "loggamma": {"a": 2.0},
    "multinomial": {"n": 10, "p": [0.2, 0.3, 0.5]},
    "multivariate_normal": {"mean": [0.0, 1.0], "cov": [[2.0, 0.5], [0.5, 1.0]]},
    "orthogonal": {"n": 3},
    "pareto": {"b": 2.0},
    "permutation": {"x": 6},
    "poisson": {"lam": 3.0},
    "randint": {"minval": 0, "maxval": 10},
    "rayleigh": {"scale": 2.0},
    "t": {"df": 3.0},
    "triangular": {"left": 0.0, "mode": 0.5, "right": 1.0},
    "truncated_normal": {"lower": -1.0, "upper": 1.0},
    "wald": {"mean": 1.0},
    "weibull_min": {"scale": 1.0, "concentration": 2.0},
}


def sample(
    name: str, key: jax.Array, shape=None, *, dtype=None, max_elements=None, **parameters
) -> jax.Array:
    return sampling.sample(name, key, shape, dtype, parameters, max_elements)


def jaxs_own(name: str, shape, parameters: dict):
    arrays = {
        key: jnp.asarray(value) if isinstance(value, list) else value
        for key, value in parameters.items()
    }
    given = {} if shape is None else {"shape": shape}
    # On the device where jaxkit draws: the programs are then compiled once for both.
    return getattr(jax.random, name)(jax.device_put(KEY, jax.devices()[0]), **arrays, **given)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long) if name in LIKE_OTHERS else name
        for name in sampling.DISTRIBUTIONS
    ],
)
def test_every_distribution_gives_jaxs_numbers_bit_for_bit(name: str) -> None:
    parameters = PARAMETERS.get(name, {})
    needs_shape = "shape" in sampling.accepted_parameters(name) and name not in (
        "dirichlet",
        "multivariate_normal",
        "multinomial",
    )
    shape = (4,) if needs_shape else None
    drawn = sample(name, KEY, shape, max_elements=10_000, **parameters)
    expected = jaxs_own(name, shape, parameters)
    assert drawn.dtype == expected.dtype
    assert np.asarray(drawn).tobytes() == np.asarray(expected).tobytes()


def test_no_distribution_of_this_jax_is_forgotten() -> None:
    others = {
        "Key", "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split",
        "wrap_key_data",
    }  # fmt: skip
    public = {
        name
        for name in dir(jax.random)
        if not name.startswith("_") and callable(getattr(jax.random, name))
    }
    assert public - others == set(sampling.DISTRIBUTIONS)


def test_the_known_vectors_come_out() -> None:
    assert np.allclose(sample("normal", KEY, 3), [-0.0283046, 0.4671319, 0.2957030], atol=1e-7)
    assert np.allclose(sample("uniform", KEY, 3), [0.4887096, 0.6797972, 0.6162715])
    bits = sample("bits", KEY, (3,)).tolist()
    assert bits == [2098992034, 2919706841, 2646866425]
    assert sample("poisson", KEY, (8,), lam=3).tolist() == [6, 2, 2, 1, 5, 2, 3, 3]


def test_samples_live_on_the_cpu_whatever_the_default_device_is() -> None:
    with jax.default_device(jax.devices()[3]):
        assert sample("normal", KEY, (4,)).devices() == {jax.devices("cpu")[0]}


def test_a_key_that_lives_elsewhere_is_brought_to_the_cpu() -> None:
    key = jax.device_put(KEY, jax.devices()[3])
    drawn = sample("normal", key, (3,))
    assert drawn.devices() == {jax.devices("cpu")[0]}
    assert np.allclose(drawn, sample("normal", KEY, (3,)))


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [
        ("normal", (1 << 20, 1 << 20), {}),
        ("normal", (1 << 50,), {}),
        ("orthogonal", None, {"n": 10**6}),
        ("permutation", None, {"x": 10**9}),
        # The result is small, what is shuffled on the way is not.
        ("choice", (1,), {"a": 10**9, "replace": False}),
        ("ball", (), {"d": 10**9}),
    ],
)
def test_a_draw_of_terabytes_is_refused_before_it_begins(name, shape, parameters) -> None:
    with pytest.raises(TPUError, match="are allowed here"):
        sample(name, KEY, shape, max_elements=1 << 20, **parameters)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nrmal", {}, "Unknown distribution 'nrmal'"),
        ("split", {}, "Unknown distribution 'split'"),
        ("normal", {"mean": 3}, "no parameter 'mean'"),
        ("normal", {"out_sharding": None}, "no parameter 'out_sharding'"),
        ("poisson", {"shape": (3,)}, "needs lam"),
        ("truncated_normal", {}, "needs lower and upper"),
        ("normal", {"shape": (-1,)}, "from 0 to 2**53, not -1"),
        ("normal", {"shape": (1.5,)}, "whole number, not 1.5"),
        ("normal", {"shape": ("n",)}, "whole number, not n"),
        ("normal", {"shape": "three"}, "list of whole numbers"),
        ("normal", {"shape": [1] * 40}, "at most 32 dimensions"),
        ("normal", {"shape": (2,), "dtype": "float31"}, "Unknown dtype 'float31'"),
        ("normal", {"shape": (2,), "dtype": "key<fry>"}, "samples numbers, not random keys"),
        ("normal", {"shape": (2,), "dtype": "float64"}, "needs jax_enable_x64"),
        ("normal", {"shape": (2,), "dtype": "int32"}, "jax rejects this normal"),
        ("orthogonal", {"n": 3, "shape": (), "dtype": "bool"}, "jax rejects"),
        ("permutation", {"x": 5, "shape": (3,)}, "has no parameter shape"),
        ("uniform", {"minval": [1, [2]]}, "lists"),
        ("uniform", {"minval": {"a": 1}}, "number or a list"),
        ("uniform", {"minval": "0"}, "number or a list"),
        ("multivariate_normal", {"mean": [0.0], "cov": [[1.0, 0.0]]}, "jax rejects"),
        ("gumbel", {"shape": (2,), "mode": "medium"}, "jax rejects"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(name, options, says: str) -> None:
    with pytest.raises(TPUError) as caught:
        sample(name, KEY, **options)
    assert says.split("lists")[0] in str(caught.value)


def test_a_symbolic_shape_is_refused() -> None:
    from jax import export

    (size,) = export.symbolic_shape("n")
    with pytest.raises(TPUError, match="Symbolic shapes"):
        sample("normal", KEY, (size,))
