"""Programs that a host gets for us, apart from the user's environments; and TensorBoard."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from ..errors import Reason, TPUError
from . import pythons
from .models import RemoteHost
from .progress import ProgressReporter, StepPlan
from .remote_call import NoSuchPython, call

#: Where the tools are; no environment of a user's can have such a name.
TENSORBOARD = "_tensorboard"
#: xprof is the plug-in for traces; without TensorFlow, logs in a bucket are read by gcsfs.
REQUIREMENTS = ("tensorboard", "xprof", "gcsfs")
#: Bytes that must be free before they are installed.
SPACE = 600 * 2**20

INSTALL_STEPS = (
    StepPlan("look", "Look at the host", 3),
    StepPlan("uv", "Get uv", 5),
    StepPlan("venv", "Make an environment for tools", 3),
    StepPlan("packages", "Install TensorBoard and xprof", 60),
)


class TensorBoardServer(Struct, frozen=True, kw_only=True):
    """A TensorBoard that answers."""

    port: int  # on the host
    logdir: str  # absolute
    reused: bool  # it ran already


async def install(host: RemoteHost, reporter: ProgressReporter) -> None:
    """Installs TensorBoard on a host, if it is not there yet; its steps are `INSTALL_STEPS`.

    Raises TPUError: DISK_FULL, NO_PYTHON, ENVIRONMENT, UNREACHABLE, TIMEOUT. Cancelling ends what
    runs on the host; a next time goes on from there.
    """
    reporter.begin("look")
    look = await call(host, "probe", log=reporter.log, timeout=120, name=TENSORBOARD)
    reporter.done("look")
    text = "\n".join([*REQUIREMENTS, ""])
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    if look["environment"] and look["marker"].get("made of") == fingerprint:
        for key in ("uv", "venv", "packages"):
            reporter.done(key, "skipped")
        return
    if look["free"] < SPACE:
        raise TPUError(
            f"Only {look['free'] / 2**20:.0f} MiB of the host's disk are free; TensorBoard and "
            f"xprof need {SPACE / 2**20:.0f}.",
            Reason.DISK_FULL,
            "Delete what is not needed there; `du -sh ~/* ~/.cache` shows what is big.",
        )
    reporter.begin("uv")
    uv = (await call(host, "get_uv", log=reporter.log, timeout=900))["uv"]
    reporter.done("uv")
    reporter.begin("venv")
    wanted = pythons.choose(None, [look["pythons"]], [look["environment"]], TENSORBOARD)
    try:
        await call(
            host,
            "create_venv",
            log=reporter.log,
            timeout=1200,
            uv=uv,
            name=TENSORBOARD,
            python=wanted.path_in(look["pythons"]),
        )
    except NoSuchPython:
        raise pythons.missing(wanted.said, [look["pythons"]]) from None
    reporter.done("venv")
    reporter.begin("packages")
    await call(
        host,
        "install_packages",
        log=reporter.log,
        part=lambda part: reporter.part("packages", part),
        timeout=7300,
        uv=uv,
        name=TENSORBOARD,
        requirements=text,
    )
    content = {"made of": fingerprint}
    await call(
        host, "write_marker", log=reporter.log, timeout=60, name=TENSORBOARD, content=content
    )
    reporter.done("packages")


async def start(host: RemoteHost, logdir: str, reporter: ProgressReporter) -> TensorBoardServer:
    """Starts TensorBoard for a folder of the host and waits until it answers.

    logdir: below the home if it is relative; a bucket as ``gs://…``. The tools must be there.
    """
    answer = await call(
        host, "start_tensorboard", log=reporter.log, timeout=300, name=TENSORBOARD, logdir=logdir
    )
    return TensorBoardServer(**answer)


async def stop(host: RemoteHost, logdir: str | None = None) -> None:
    """Ends the TensorBoard of a folder, or all that we have started there."""
    await call(host, "stop_tensorboard", log=lambda line: None, timeout=60, logdir=logdir)


async def capture_trace(
    host: RemoteHost,
    environment: str,
    kernel: str,
    logdir: str,
    seconds: float,
    reporter: ProgressReporter,
) -> str:
    """Traces what a kernel does for some seconds; gives the folder with the trace, absolute.

    Raises CONFLICT for a kernel that has not imported JAX, NOT_FOUND for one that is gone.
    """
    answer = await call(
        host,
        "trace",
        log=reporter.log,
        timeout=seconds + 240,
        name=environment,
        kernel=kernel,
        logdir=logdir,
        seconds=seconds,
    )
    return answer["logdir"]
