"""What the agent's folder does when Python runs it: ``up``, ``daemon`` or ``keeper``.

Little is imported here: a keeper starts its kernel first and loads the rest while that one loads.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    if sys.version_info < (3, 8):
        print(json.dumps({"reason": "NO_PYTHON", "message": "Python %s" % sys.version.split()[0]}))
        return 3
    os.umask(0o077)
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role == "keeper":
        return _keeper()
    if role == "up":
        from .up import up

        return up()
    if role == "daemon":
        from .up import serve

        return serve()
    print("usage: python AGENT_FOLDER up|daemon|keeper", file=sys.stderr)
    return 2


def _keeper() -> int:
    """Reads its order from stdin; says one line of JSON on stdout when it listens.

    An order for a *warm* kernel has two more before: who they are, and that it is warm. The order
    that makes it somebody's kernel follows when it is wanted, or the end of stdin if it is not.
    """
    from .kernel_process import KernelProcess

    order = json.loads(sys.stdin.readline())
    warm = "warm" in order
    try:
        process = KernelProcess(order)
    except OSError as error:
        _say({"problem": "the kernel cannot be started: %s" % error})
        return 1
    try:
        import asyncio

        from .keeper import Keeper
    except ImportError as error:
        _say({"problem": "the environment lacks a package that kernels need: %s" % error})
        os.killpg(process.pid, 9)
        return 1

    if warm:
        print(json.dumps({"keeper": os.getpid(), "pid": process.pid}), flush=True)
        print(json.dumps(process.warmed()), flush=True)
        line = sys.stdin.readline()
        if not line:
            process.signal(9)
            os._exit(0)
        order = json.loads(line)
        log = os.open(os.path.join(order["folder"], "keeper.log"), os.O_CREAT | os.O_WRONLY, 0o600)
        os.dup2(log, 2)
        os.close(log)
        try:
            process.be(order)
        except OSError as error:
            _say({"problem": "the warm kernel has ended: %s" % error})
            return 1

    async def keep() -> None:
        await Keeper(order, process).run(lambda: _say({"pid": process.pid, "keeper": os.getpid()}))

    asyncio.run(keep())
    # Everything is gone and said; whoever saw the connection end expects the process gone as well.
    os._exit(0)


def _say(words: dict) -> None:
    """The one line; after it stdout leads nowhere, so that no pipe to the daemon stays open."""
    print(json.dumps(words), flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    os.close(null)


if __name__ == "__main__":
    sys.exit(main())
