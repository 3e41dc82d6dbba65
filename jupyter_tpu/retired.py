"""The architecture "TPU Node", which Google has retired: how it is recognized, and what to use.

Its TPUs had no hosts to log in to. A program on another VM sent them its work over gRPC, at an
address such as grpc://10.0.0.2:8470.
"""

from __future__ import annotations

import re

from .errors import InvalidInput, Reason, TPUError

INSTEAD = "Create a TPU VM instead: `jupyter tpu create NAME --type TYPE --zone ZONE`."
#: Variables in which programs found the address. (That of XRT_TPU_CONFIG follows other words.)
TPU_NODE_VARIABLES = ("TPU_NAME", "COLAB_TPU_ADDR", "XRT_TPU_CONFIG")
_ADDRESS = re.compile(r"grpcs?:(?!$).*|[^/~\s]+:8470", re.DOTALL)


def is_tpu_node_address(text: str) -> bool:
    """Whether *text* is where a program found a TPU Node.

    >>> is_tpu_node_address("grpc://10.0.0.2:8470")
    True
    """
    return bool(_ADDRESS.fullmatch(text.strip()))


def refuse_tpu_node_address(text: str) -> None:
    """Raises INVALID where *text*, which should name a TPU, is the address of a TPU Node."""
    if is_tpu_node_address(text):
        raise InvalidInput(
            f"{text} is the address of a TPU Node, which has no hosts to log in to. Google has "
            "retired that architecture.",
            INSTEAD,
        )


def tpu_node_error(name: str) -> TPUError:
    """Why a TPU Node can't be used."""
    return TPUError(
        f"{name} is a TPU Node, which has no hosts to log in to. Google has retired that "
        "architecture.",
        Reason.CONFLICT,
        INSTEAD,
    )
