"""What a host gets in addition to Python: packages of apt, a time zone, oh-my-zsh, the user's own
script.

Each of `STEPS` has a check, which says whether this host has it, and an apply, which gives it that.
Both get what is wanted and the path of the environment. A step that was cut off is applied again.
"""

import contextlib
import hashlib
import os
import pwd
import re
import shutil
import tempfile
import time

from ..agent.protocol.process_env import process_environment
from ..calls.paths import HOME, MARKER, environment_dir, write_file
from ..calls.processes import clean_environment, run
from ..calls.protocol import HostError, disk_full, emit, unreachable

#: In an environment: the digest of the setup script that has ended well there.
SCRIPT_DONE = "jupyter-tpu-setup-script"
ZONES = "/usr/share/zoneinfo"
OH_MY_ZSH = "https://github.com/ohmyzsh/ohmyzsh.git"
#: A fresh VM often installs its own updates first. Seconds to wait for them.
APT_LOCKED = 900
#: Without questions, which no one would answer; files that someone changed stay as they are.
_APT = (
    "env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1",
    "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=%d" % APT_LOCKED,
    "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
)  # fmt: skip
#: What apt says of a package, and what a person reads.
_APT_CAUSES = (
    (r"E: Unable to locate package (\S+)", "apt has no package {}."),
    (r"E: Package '?(\S+?)'? has no installation candidate", "apt has no package {}."),
    (r"E: Version '(.+?)' for '(.+?)' was not found", "apt has no version {} of {}."),
)
_LONGEST_STEP_SECONDS = 7200


def setup_states(setup, path):
    """{key: "done" | "needed" | "skipped"} of the steps in *setup*; *path*: of the environment."""
    if not _has_own_root():
        return dict.fromkeys(setup, "skipped")
    return {key: "done" if STEPS[key][0](value, path) else "needed" for key, value in setup.items()}


def apply_setup(key, value, name, number):
    """Applies one step; *name* is the environment's, *number* that of this host."""
    os.environ["JUPYTER_TPU_HOST"] = str(number)  # as jobs have it
    STEPS[key][1](value, environment_dir(name))
    return {}


def _has_own_root():
    """Whether root here is not the root of the machine of someone who tries the emulator."""
    return "JUPYTER_TPU_EMULATED_HOST" not in os.environ


def _sudo(*argv):
    """As `run`, as root; its output goes to the log."""
    if os.geteuid():
        argv = ("sudo", "-n", *argv)
    return run(
        argv, env=clean_environment(), timeout=_LONGEST_STEP_SECONDS, on_line=lambda x: emit(log=x)
    )


def _require_sudo(action):
    if os.geteuid() and (not shutil.which("sudo") or run(["sudo", "-n", "true"])[0]):
        raise HostError(
            "ENVIRONMENT",
            "%s needs sudo, which asks for a password or is not installed." % action,
            "Let the login user use sudo without a password on the hosts.",
        )


# ---- apt ----


def has_packages(packages, path):
    versions = {}
    if not shutil.which("dpkg-query"):
        return False
    form = r"${db:Status-Status}\t${Package}\t${Architecture}\t${Version}\t${Provides}\n"
    for line in run(["dpkg-query", "-W", "-f", form])[1]:
        state, name, architecture, version, provided = (line + "\t\t\t\t").split("\t")[:5]
        if state == "installed":
            versions[name] = versions["%s:%s" % (name, architecture)] = version
            for provided_name in re.findall(r"(?:^|, )([^ ,(]+)", provided):
                versions.setdefault(provided_name, "")
    requested = [package.partition("=") for package in packages]
    return all(
        name in versions and (not version or version == versions[name])
        for name, _, version in requested
    )


def install_packages(packages, path):
    if not shutil.which("apt-get"):
        raise HostError("ENVIRONMENT", "apt is not on this host.", "Use a Debian or Ubuntu image.")
    _require_sudo("Installing packages of apt")
    _sudo("dpkg", "--configure", "-a")  # an earlier installation may have been cut off
    deadline = time.time() + APT_LOCKED
    while True:
        status, lines = _sudo(*_APT, "update")
        if not status or "ould not get lock" not in "\n".join(lines) or time.time() > deadline:
            break
        emit(log="Waiting for another program that uses apt")
        time.sleep(5)
    old = [line for line in lines if re.match(r"[EW]: Failed to fetch ", line)]  # may exit with 0
    if status or old:
        emit(log="apt-get update failed. Using apt's existing package lists")
    status, lines = _sudo(*_APT, "install", "--", *packages)
    if status:
        raise _apt_error(lines, old[0][3:] if old else "")


def _apt_error(lines, update_failure):
    """The error for the output of ``apt-get install``. *update_failure*: why apt may not know the
    packages that there are now; "" if it does.
    """
    text = "\n".join(lines)
    if re.search(r"No space left on device|don't have enough free space", text):
        return disk_full("apt needs more")
    for pattern, sentence in _APT_CAUSES:
        match = re.search(pattern, text)
        if match and update_failure:
            cause = update_failure.strip().rstrip(".")
            return unreachable("apt can't update its package lists: %s." % cause)
        if match:
            return HostError(
                "PACKAGE", sentence.format(*match.groups()), "Correct the package names."
            )
    errors = [line for line in lines if line.startswith("E: ")] or lines[-1:] or ["no output"]
    return HostError(
        "ENVIRONMENT",
        "apt-get failed: %s" % errors[0].rstrip("."),
        "The log has apt's full output.",
    )


# ---- time zone ----


def has_timezone(zone, path):
    return os.path.realpath("/etc/localtime") == os.path.realpath(os.path.join(ZONES, zone))


def set_timezone(zone, path):
    file = os.path.join(ZONES, zone)
    if not os.path.isfile(file):
        raise HostError(
            "ENVIRONMENT",
            "The time zone %s does not exist on this host." % zone,
            "Choose another one, or add the apt package tzdata.",
        )
    _require_sudo("Setting the time zone")
    script = 'ln -sfn "$1" /etc/localtime && echo "$2" >/etc/timezone'
    status, lines = _sudo("sh", "-c", script, "sh", file, zone)
    if status:
        raise _failed("Setting the time zone", status, lines)
    emit(log="The time zone is %s" % zone)


# ---- oh-my-zsh ----


def has_oh_my_zsh(requested, path):
    there = os.path.isfile(os.path.join(HOME, ".oh-my-zsh", "oh-my-zsh.sh"))
    return bool(there and shutil.which("zsh"))


def install_oh_my_zsh(requested, path):
    """zsh, oh-my-zsh, and a ~/.zshrc if there is none; zsh becomes the login shell."""
    missing = [tool for tool in ("git", "zsh") if not shutil.which(tool)]
    if missing:
        install_packages(missing, path)
    folder = os.path.join(HOME, ".oh-my-zsh")
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    status, lines = run(
        ["git", "clone", "--quiet", "--depth", "1", OH_MY_ZSH, part],
        env=dict(clean_environment(), GIT_TERMINAL_PROMPT="0"),
        timeout=600,
        on_line=lambda line: emit(log=line),
    )
    if status:
        raise _failed("Downloading oh-my-zsh", status, lines)
    settings = os.path.join(HOME, ".zshrc")
    if not os.path.lexists(settings):
        with open(os.path.join(part, "templates", "zshrc.zsh-template")) as file:
            write_file(settings, file.read())
    _require_sudo("Changing the login shell")
    user = pwd.getpwuid(os.getuid()).pw_name
    if _sudo("usermod", "--shell", shutil.which("zsh"), user)[0]:
        emit(log="The login shell of %s was not changed. Start zsh by hand" % user)
    os.rename(part, folder)


# ---- the user's script ----


def has_run(script, path):
    with contextlib.suppress(OSError), open(os.path.join(path, SCRIPT_DONE)) as file:
        return file.read() == _digest(script)
    return False


def run_script(script, path):
    """Runs it as the login user, in the home folder, with the environment's commands.

    It is in a file without a name: nothing of it is left, nor seen in the list of processes.
    """
    done = os.path.join(path, SCRIPT_DONE)
    for marker_file in (done, os.path.join(path, MARKER)):  # it may break what was verified
        with contextlib.suppress(OSError):
            os.unlink(marker_file)
    if "\r\n" in script:
        emit(log="Converted the setup script's Windows line endings")
        script = script.replace("\r\n", "\n")
    variables = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_SUSPEND": "1"}
    environment = process_environment(os.path.join(path, "bin", "python"), variables)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path) as file:
        file.write(script)
        file.flush()
        os.chmod(file.name, 0o700)
        descriptor = os.open(file.name, os.O_RDONLY)  # a file open for writing can't be executed
    try:
        name = "/proc/self/fd/%d" % descriptor
        command = [name] if script.startswith("#!") else ["bash", name]
        status, lines = run(
            command,
            env=environment,
            timeout=_LONGEST_STEP_SECONDS,
            on_line=lambda line: emit(log=line),
            pass_fds=(descriptor,),
        )
    except OSError as error:
        first = script.partition("\n")[0]
        raise HostError(
            "ENVIRONMENT",
            "The setup script can't be started: %s (%s)." % (error.strerror, first),
            "Correct its first line.",
        ) from None
    finally:
        os.close(descriptor)
    if status:
        raise _failed("The setup script", status, lines)
    write_file(done, _digest(script))


def _digest(script):
    return hashlib.sha256(script.replace("\r\n", "\n").encode()).hexdigest()


def _failed(what, status, lines):
    """With the last lines of the output."""
    last = " / ".join(line.strip() for line in lines[-3:] if line.strip()) or "no output"
    return HostError(
        "ENVIRONMENT",
        "%s failed with exit code %d: %s." % (what, status, last[-300:].rstrip(".")),
        "Correct what is wrong, and connect again. Hosts that have finished don't repeat it.",
    )


#: What an environment can be used without: if it fails, that is a warning.
OPTIONAL = "timezone", "oh_my_zsh"
#: {key: (check, apply)}
STEPS = {
    "apt": (has_packages, install_packages),
    "timezone": (has_timezone, set_timezone),
    "oh_my_zsh": (has_oh_my_zsh, install_oh_my_zsh),
    "script": (has_run, run_script),
}
