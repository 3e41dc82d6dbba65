"""Training steps of MaxText's published configurations, rebuilt in plain JAX from their numbers.

The numbers are those of MaxText's configs/v4, v5e and v5p (22b.sh, 16b.sh, …) and of its base.yml:
a decoder with layers in one `scan`, recomputation as named there, master weights and Adam in
float32, products in bfloat16, `fsdp` and `tensor` as its rules place them. Not rebuilt: its flash
attention (here plain attention, in blocks of queries, so that the compiler counts it), its input,
and its compiler flags.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from msgspec import Struct

LENGTH = 2048  # tokens
VOCABULARY = 32_000
_BLOCK = 128  # queries


class Config(Struct, frozen=True, kw_only=True):
    """One published run. *recompute*: all of a layer, all but its products, or that on the host."""

    name: str
    type: str
    tflops: float  # published, a chip
    width: int
    heads: int
    head: int = 128
    hidden: int
    layers: int
    batch: int  # sequences a device
    recompute: Literal["full", "minimal", "offloaded"]
    tensor: int = 1
    gated: bool = True  # two products into the hidden layer

    @property
    def model_flops(self) -> float:
        """FLOPs of a step and device, as MaxText counts them: without what is computed again."""
        weights = 4 * self.width * self.heads * self.head
        weights += (3 if self.gated else 2) * self.width * self.hidden
        total = self.layers * weights + self.width * VOCABULARY
        tokens = self.batch * LENGTH
        attention = 12 * self.layers * self.heads * self.head * LENGTH
        return float(tokens * (6 * total + attention))


def _scaled(name: str, type: str, tflops: float, batch: int, recompute: Any, **more: Any) -> Config:
    """A model of MaxText's `global_parameter_scale`."""
    width, heads, hidden, layers = {
        "16B": (4096, 64, 28672, 32),
        "32B": (8192, 64, 28672, 32),
        "64B": (8192, 64, 28672, 64),
        "128B": (8192, 128, 57344, 64),
        "256B": (16384, 128, 57344, 64),
    }[name]
    return Config(
        name=name, type=type, tflops=tflops, width=width, heads=heads, hidden=hidden,
        layers=layers, batch=batch, recompute=recompute, **more,
    )  # fmt: skip


#: One slice each. Not here: 52B on v4-384, which the catalog does not have; 512B and more.
CONFIGS = (
    _scaled("16B", "v5litepod-256", 120, 6, "full"),
    _scaled("32B", "v5litepod-256", 132, 4, "full"),
    _scaled("64B", "v5litepod-256", 118, 2, "full"),
    _scaled("128B", "v5litepod-256", 110, 1, "offloaded", tensor=16),
    _scaled("32B", "v5p-128", 328, 7, "minimal", tensor=4),
    _scaled("64B", "v5p-128", 323, 3, "minimal", tensor=4),
    _scaled("128B", "v5p-256", 315, 1, "minimal", tensor=8),
    _scaled("128B", "v5p-512", 316, 1, "minimal", tensor=8),
    _scaled("256B", "v5p-1024", 308, 1, "minimal", tensor=8),
    Config(
        name="22B", type="v4-128", tflops=156, width=6144, heads=24, head=256, hidden=24576,
        layers=48, batch=13, recompute="full", gated=False,
    ),
)  # fmt: skip


def step_of(config: Config, devices: int) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The step, its arguments as shapes, and the options of `jaxkit.plan`: mesh and shardings."""
    wide = config.heads * config.head
    layers, width, hidden = config.layers, config.width, config.hidden
    down = ["up", "gate"] if config.gated else ["up"]
    shapes = {
        **dict.fromkeys(("query", "key", "value"), (layers, width, wide)),
        **dict.fromkeys(down, (layers, width, hidden)),
        "out": (layers, wide, width),
        "down": (layers, hidden, width),
        "norm1": (layers, width),
        "norm2": (layers, width),
        "embedding": (VOCABULARY, width),
        "logits": (width, VOCABULARY),
    }
    specs = {
        **{name: P(None, "fsdp", "tensor") for name in ("query", "key", "value", *down)},
        "out": P(None, "tensor", "fsdp"),
        "down": P(None, "tensor", "fsdp"),
        "norm1": P(None, "tensor"),
        "norm2": P(None, "tensor"),
        "embedding": P("tensor", "fsdp"),
        "logits": P("fsdp", "tensor"),
    }
    weights = {name: (shape, "float32") for name, shape in shapes.items()}
    tokens = ((config.batch * devices, LENGTH), "int32")
    mesh = {"fsdp": devices // config.tensor, "tensor": config.tensor}
    options = {
        "mesh": mesh,
        "in_shardings": (specs, specs, specs, P("fsdp")),
        "donate_argnums": (0, 1, 2),
    }
    return _step(config), (weights, weights, weights, tokens), options


def _step(config: Config) -> Any:
    def loss(weights: Any, tokens: Any) -> Any:
        half = {name: leaf.astype(jnp.bfloat16) for name, leaf in weights.items()}
        inputs, targets = tokens, jnp.roll(tokens, -1, 1)
        hot = jax.nn.one_hot(inputs, VOCABULARY, dtype=jnp.bfloat16)  # use_iota_embed
        stream = _at(hot @ half["embedding"], "fsdp", None, "tensor")
        outside = ("embedding", "logits")
        stacked = {name: leaf for name, leaf in half.items() if name not in outside}
        layer = jax.checkpoint(_layer(config), policy=_policy(config), prevent_cse=False)
        stream, _ = jax.lax.scan(lambda x, w: (layer(x, w), None), stream, stacked)
        logits = _at(_norm(stream) @ half["logits"], "fsdp", None, "tensor").astype(jnp.float32)
        peak = jax.scipy.special.logsumexp(logits, axis=-1)
        target = jnp.sum(logits * jax.nn.one_hot(targets, VOCABULARY, dtype=jnp.float32), -1)
        return jnp.mean(peak - target)

    def step(weights: Any, first: Any, second: Any, tokens: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(weights, tokens)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, slopes)
        weights = jax.tree.map(
            lambda w, m, v: w - 1e-4 * (m / (jnp.sqrt(v) + 1e-8) + 0.1 * w), weights, first, second
        )
        return weights, first, second, value

    return step


def _layer(config: Config) -> Any:
    def layer(stream: Any, w: Any) -> Any:
        inner = _norm(stream) * w["norm1"]
        query, key, value = (_heads(config, inner @ w[n]) for n in ("query", "key", "value"))
        mixed = _attention(query, key, value).reshape(*stream.shape[:2], -1)
        stream = _at(stream + mixed @ w["out"], "fsdp", None, "tensor")
        inner = _norm(stream) * w["norm2"]
        hidden = _at(inner @ w["up"], "fsdp", None, "tensor")
        hidden = jax.nn.silu(inner @ w["gate"]) * hidden if config.gated else jax.nn.relu(hidden)
        return _at(stream + hidden @ w["down"], "fsdp", None, "tensor")

    return layer


def _heads(config: Config, product: Any) -> Any:
    split = product.reshape(*product.shape[:2], config.heads, config.head)
    return _at(split, "fsdp", None, "tensor", None)


def _attention(query: Any, key: Any, value: Any) -> Any:
    """Attention of all queries to all keys, a block of queries after the other."""
    batch, length, heads, size = query.shape
    blocks = query.reshape(batch, length // _BLOCK, _BLOCK, heads, size).swapaxes(0, 1)

    @jax.checkpoint
    def block(part: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", part, key) / size**0.5
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), value)

    mixed = jax.lax.map(block, blocks)
    return mixed.swapaxes(0, 1).reshape(batch, length, heads, size)


def _norm(stream: Any) -> Any:
    size = jnp.mean(jnp.square(stream.astype(jnp.float32)), -1, keepdims=True)
    return (stream * jax.lax.rsqrt(size + 1e-6)).astype(stream.dtype)


def _policy(config: Config) -> Any:
    policies = jax.checkpoint_policies
    if config.recompute == "full":
        return policies.nothing_saveable
    if config.recompute == "minimal":
        return policies.dots_with_no_batch_dims_saveable
    return policies.offload_dot_with_no_batch_dims("device", "pinned_host")


def _at(array: Any, *axes: Any) -> Any:
    return jax.lax.with_sharding_constraint(array, P(*axes))
