"""Packages in a running kernel: ``%pip``, ``%uv``, ``!pip``, and the note when to restart."""

import importlib
import os
import re
import shlex
import signal
import site
import subprocess
import sys

from .packages import REQUESTED, requested

#: Commands that change packages. They run without a fork of the kernel, which JAX warns of.
_COMMANDS = re.compile(r"\s*(\S*python[\d.]*\s+-m\s+)?(pip3?|uv)(\s|$)")


def load(shell):
    """Prepares IPython's *shell* in an environment of ours; called once by the launcher."""
    path = os.path.join(sys.prefix, REQUESTED)
    seen = {"mtime": _mtime(path), "revision": requested(sys.prefix)["revision"], "modules": set()}
    links = _links()

    def see_new_folders():
        """Makes folders that were installed as they are (``-e``) importable without a restart."""
        for folder, name in sorted(_links() - links):
            links.add((folder, name))
            site.addpackage(folder, name, None)
        importlib.invalidate_caches()

    def magic(tool):
        def run_tool(line):
            run([os.path.join(sys.prefix, "bin", tool), *shlex.split(line)])
            see_new_folders()

        run_tool.__doc__ = "Runs `%s`, which is uv, for this kernel's environment." % tool
        return run_tool

    for tool in ("pip", "uv"):
        shell.register_magic_function(magic(tool), "line", tool)

    def system(command):
        """As IPython's, which would look for variables in this frame instead of the caller's."""
        from IPython.utils.process import system as with_terminal

        if command.rstrip().endswith("&"):
            raise OSError("Background processes not supported.")
        expanded = shell.var_expand(command, depth=1)
        if _COMMANDS.match(expanded):
            shell.user_ns["_exit_code"] = run(["/bin/sh", "-c", expanded])
            see_new_folders()
        else:
            shell.user_ns["_exit_code"] = with_terminal(expanded)

    shell.system = system

    def before_cell(*_):
        seen["modules"] = set(sys.modules)

    def after_cell(*_):
        mtime = _mtime(path)
        if mtime == seen["mtime"]:
            return
        state = requested(sys.prefix)
        news = [change for change in state["changes"] if change["revision"] > seen["revision"]]
        seen.update(mtime=mtime, revision=state["revision"])
        see_new_folders()
        stale = sorted({_stale(m, now) for new in news for m, now in new["modules"].items()
                        if m in seen["modules"]} - {""})  # fmt: skip
        if stale:
            print("Restart the kernel to use %s: it has already imported another version."
                  % ", ".join(stale))  # fmt: skip

    shell.events.register("pre_run_cell", before_cell)
    shell.events.register("post_run_cell", after_cell)


def _stale(module, now):
    """What to restart for: *now* is "numpy 2.1.0", or "" of a removed package."""
    # Not getattr: some modules run code for that, which may need files that are gone.
    version = vars(sys.modules[module]).get("__version__") if module in sys.modules else None
    newest = now.rpartition(" ")[2]
    return "" if not now or version == newest else now


def _links():
    """(folder, name) of each file by which Python finds other folders when it starts."""
    folders = [folder for folder in site.getsitepackages() if os.path.isdir(folder)]
    return {(each, name) for each in folders for name in os.listdir(each) if name.endswith(".pth")}


def _mtime(path):
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def run(arguments):
    """Runs a command and prints what it prints; an interrupt goes to it. Returns its exit code."""
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
        start_new_session=True,
    )
    assert process.stdout is not None
    while True:
        try:
            for line in process.stdout:
                print(line, end="")
            return process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
