"""PyTorch without CUDA: for the CPU, beside TorchTPU, which brings what uses the chips.

PyPI's PyTorch for Linux on x86-64 brings CUDA's libraries (5 GB). PyTorch's own index has others.
"""

import re

from ..calls.protocol import HostError, emit
from . import indexes
from .packages import name_of

#: PyTorch for the CPU, and what is compiled for it. Source: pytorch.org/get-started/locally.
HOST = "https://download.pytorch.org"
INDEX = HOST + "/whl/cpu"
#: Packages of PyTorch that are compiled for one kind of it.
_COMPILED = ("torch", "torchvision", "torchaudio")
#: What only a PyTorch with CUDA needs.
_CUDA = re.compile(r"(nvidia|cuda)-|triton$")


def noted_with(index, requirement):
    """*requirement*, of *index* if it is one of PyTorch's and says no other."""
    plain, own = indexes.split(requirement)
    of_pytorch = name_of(plain) in _COMPILED and "@" not in plain
    return requirement if own or not of_pytorch else indexes.noted(plain, index)


def resolve_on_host_index(compiled, requirements, cause):
    """The lines of `compiled(requirements)` with the newest PyTorch without CUDA of the host's own
    index, for a host that does not reach PyTorch's (*cause*: the HostError that says so).
    """
    emit(log="Looking for a PyTorch without CUDA in the host's own package index")
    text = "\n".join(
        requirement if index == INDEX else line
        for line in requirements.splitlines()
        for requirement, index in [indexes.split(line)]
    )
    try:
        while True:
            lines = compiled(text)
            if not any(_CUDA.match(name_of(line)) for line in lines):
                return lines
            newest = next(line for line in lines if name_of(line) == "torch")
            text += "\ntorch<%s.%s\n" % re.findall(r"==(\d+)\.(\d+)", newest)[0]
    except HostError as error:
        if error.payload[0] != "PACKAGE":
            raise
        raise HostError(
            "PACKAGE",
            "The host's own package index has no PyTorch without CUDA that fits, and %s"
            % (cause.payload[1][0].lower() + cause.payload[1][1:]),
            "Let the host reach %s, which has PyTorch for the CPU." % INDEX,
        ) from None
