"""The exact versions of what an environment needs, chosen on one host for all."""

import os
import tempfile

from ..calls.paths import environment_dir, exclusive_lock, private_dir, write_file
from ..calls.protocol import HostError, emit
from . import indexes, pytorch
from .packages import own_indexes, pins, uv_pip


def resolve(uv, name, requirements, lock=""):
    """Exact versions of all that *requirements* need: {"lock": text}.

    What is installed keeps its version where that is possible. *lock* is an earlier result, whose
    versions are required.
    """
    path = environment_dir(name)
    with exclusive_lock(name), tempfile.TemporaryDirectory(dir=private_dir("environments")) as work:
        output = os.path.join(work, "lock.txt")
        write_file(output, "\n".join(pins(uv_pip(uv, path, "freeze", quiet=True))))

        def compiled(text):
            uv_pip(
                uv, path, "compile", "--output-file", output, "--no-header", "--no-annotate",
                "--emit-index-annotation", "--quiet", input=text,
            )  # fmt: skip
            with open(output) as file:
                return indexes.folded(file.read().splitlines())

        text = "\n".join([requirements, lock, ""])
        try:
            lines = compiled(text)
        except HostError as error:
            if pytorch.HOST not in error.payload[1]:
                raise
            lines = pytorch.resolve_on_host_index(compiled, text, error)
    # All others come from the host's index, or from those that the requirements' options name.
    asked = set(own_indexes([*requirements.splitlines(), *lock.splitlines()]).values())
    pairs = map(indexes.split, lines)
    lines = [indexes.noted(line, index if index in asked else "") for line, index in pairs]
    emit(log="Resolved %d packages" % len(pins(lines)))
    return {"lock": "\n".join([*lines, ""])}
