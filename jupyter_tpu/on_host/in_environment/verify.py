"""What an environment has, and what JAX or PyTorch sees in it if it may start: one line, as JSON.

The argument is "jax" or "torch" for what is started, "start" for what is there (JAX, if both), or
"look" for nothing.
"""

import json
import subprocess
import sys

#: Uses the chips as TorchTPU's users do. A process of its own: TorchTPU ends it where it can't.
_TRY_TORCH = """
import json, torch
facts = {"cuda": torch.version.cuda or "", "devices": torch.accelerator.device_count()}
device = "tpu" if torch.accelerator.is_available() else "cpu"
print("torch " + json.dumps(facts), flush=True)
print("sum %s %d" % (device, torch.ones(8, device=device).sum().cpu()), flush=True)
"""


def main():
    sys.path[:] = [each for each in sys.path if each]
    found = {"python": "%d.%d.%d" % sys.version_info[:3]}
    try:
        look(found, sys.argv[1])
    except Exception as error:
        found["error"] = "%s: %s" % (type(error).__name__, error)
    print("verified " + json.dumps(found))


def look(found, start):
    from importlib.metadata import distributions, requires
    from importlib.util import find_spec

    found["packages"] = {d.metadata["Name"].lower(): d.version for d in distributions()}
    import ipykernel  # noqa: F401 - a kernel needs them
    import zmq  # noqa: F401

    if "torch_tpu" in found["packages"] and find_spec("torch"):
        found["torch"] = found["packages"].get("torch", "")
        if start == "torch" or (start == "start" and not find_spec("jax")):
            start_torch(found)
    if not find_spec("jax"):
        return
    import jax

    found["jax"] = jax.__version__
    try:
        from packaging.requirements import Requirement

        wanted = [Requirement(line) for line in requires("jax") or () if line[:6] == "libtpu"]
        have = found["packages"].get("libtpu")
        found["libtpu_wanted"] = next((str(each.specifier) for each in wanted), "")
        found["libtpu_fits"] = have is None or all(have in each.specifier for each in wanted)
    except ImportError:
        pass
    if start not in ("jax", "start"):
        return
    try:
        found["platform"] = jax.default_backend()
        found["devices"] = jax.local_device_count()
    except RuntimeError as error:
        found["backend_error"] = str(error)
    else:
        # JAX takes the CPU without an error if the TPU fails.
        errors = getattr(sys.modules.get("jax._src.xla_bridge"), "_backend_errors", {})
        found["backend_error"] = str(errors.get("tpu", "")) if errors else ""


def start_torch(found):
    done = subprocess.run(
        [sys.executable, "-I", "-c", _TRY_TORCH],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
    )
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    for line in lines:
        if line.startswith("torch "):
            facts = json.loads(line[len("torch ") :])
            found["cuda"], found["devices"] = facts["cuda"], facts["devices"]
        elif line in ("sum tpu 8", "sum cpu 8"):
            found["platform"] = line.split()[1]
    if done.returncode:
        found["backend_error"] = reason(lines) or "it ended with status %d" % done.returncode
    if "platform" not in found:
        print("\n".join(lines[-40:]))  # for the log


def reason(lines):
    """Why PyTorch failed, of what it printed: TorchTPU's check, else the last line of Python."""
    for line in lines:
        if "Check failed: " in line:
            return line.partition("Check failed: ")[2][:500]
    return next((line for line in reversed(lines) if "Error: " in line), "")[:500]


if __name__ == "__main__":
    main()
