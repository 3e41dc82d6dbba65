"""TensorBoard on a host, in an environment of its own: installed, started, stopped."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from ...environment import pythons
from ...environment.creation import DISK_HINT
from ...environment.host_answers import ENVIRONMENTS, Probe
from ...errors import Reason, TPUError
from ...links.host_calls import HostProgram, NoSuchPython, Nothing, Port
from ...links.remote_host import RemoteHost
from ...progress import ProgressReporter, StepPlan


class TensorBoardServer(Struct, frozen=True, kw_only=True):
    """A TensorBoard that answers requests."""

    port: Port  # on the host
    logdir: str  # absolute
    reused: bool  # it was running before


PROGRAM = HostProgram(
    "profiles.tensorboard",
    {
        "check_log_folder": Nothing | None,
        "start_tensorboard": TensorBoardServer,
        "stop_tensorboard": Nothing,
    },
)
#: Its environment; a user's environment can't have such a name.
ENVIRONMENT = "_tensorboard"
#: xprof is the plug-in for traces; without TensorFlow, logs in a bucket are read by gcsfs.
REQUIREMENTS = ("tensorboard", "xprof", "gcsfs")
#: Bytes that must be free before they are installed.
FREE_BYTES = 600 * 2**20

INSTALL_STEPS = (
    StepPlan("look", "Check the host", 3),
    StepPlan("uv", "Get uv", 5),
    StepPlan("venv", "Create an environment for TensorBoard", 3),
    StepPlan("packages", "Install TensorBoard and xprof", 60),
)


async def install(host: RemoteHost, reporter: ProgressReporter) -> None:
    """Installs TensorBoard on a host, if it is not there yet; its steps are `INSTALL_STEPS`.

    Raises TPUError: DISK_FULL, NO_PYTHON, ENVIRONMENT, UNREACHABLE, TIMEOUT. Cancelling ends what
    runs on the host; the next call continues from there.
    """
    reporter.begin("look")
    probe: Probe = await ENVIRONMENTS.call(
        host, "probe", log=reporter.log, timeout=120, name=ENVIRONMENT
    )
    reporter.done("look")
    text = "\n".join([*REQUIREMENTS, ""])
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    if probe.environment and probe.marker.get("made of") == fingerprint:
        for key in ("uv", "venv", "packages"):
            reporter.done(key, "skipped")
        return
    if probe.free < FREE_BYTES:
        raise TPUError(
            f"Only {probe.free / 2**20:.0f} MiB of the host's disk are free; TensorBoard and "
            f"xprof need {FREE_BYTES / 2**20:.0f}.",
            Reason.DISK_FULL,
            DISK_HINT,
        )
    reporter.begin("uv")
    uv = (await ENVIRONMENTS.call(host, "get_uv", log=reporter.log, timeout=900))["uv"]
    reporter.done("uv")
    reporter.begin("venv")
    python = pythons.choose(None, [probe.pythons], [probe.environment], ENVIRONMENT)
    try:
        await ENVIRONMENTS.call(
            host,
            "create_venv",
            log=reporter.log,
            timeout=1200,
            uv=uv,
            name=ENVIRONMENT,
            python=python.path_in(probe.pythons),
        )
    except NoSuchPython:
        raise pythons.missing(python.version, [probe.pythons]) from None
    reporter.done("venv")
    reporter.begin("packages")
    await ENVIRONMENTS.call(
        host,
        "install_packages",
        log=reporter.log,
        part=lambda part: reporter.part("packages", part),
        timeout=7300,
        uv=uv,
        name=ENVIRONMENT,
        requirements=text,
    )
    content = {"made of": fingerprint}
    await ENVIRONMENTS.call(
        host, "write_marker", log=reporter.log, timeout=60, name=ENVIRONMENT, content=content
    )
    reporter.done("packages")


async def require_folder(host: RemoteHost, logdir: str, reporter: ProgressReporter) -> None:
    """Raises NO_FOLDER for a folder that does not exist, unless a TensorBoard shows it already.

    logdir: as for `start`. Buckets are not checked.
    """
    await PROGRAM.call(host, "check_log_folder", log=reporter.log, timeout=60, logdir=logdir)


async def start(host: RemoteHost, logdir: str, reporter: ProgressReporter) -> TensorBoardServer:
    """Starts TensorBoard for a folder of the host and waits until it answers.

    logdir: below the home folder if it is relative; a bucket as ``gs://…``. `install` was called.
    """
    answer: TensorBoardServer = await PROGRAM.call(
        host, "start_tensorboard", log=reporter.log, timeout=300, name=ENVIRONMENT, logdir=logdir
    )
    return answer


async def stop(host: RemoteHost, logdir: str | None = None) -> None:
    """Stops the TensorBoard of a folder, or all that we have started there."""
    await PROGRAM.call(host, "stop_tensorboard", timeout=60, logdir=logdir)
