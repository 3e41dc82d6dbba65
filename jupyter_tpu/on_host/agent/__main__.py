"""What Python runs in the agent's folder: ``up``, ``daemon``, ``guard``, ``conductor``,
``pod-member``, ``sessions`` or ``home``.
"""

from __future__ import annotations

import json
import signal
import sys

from .protocol import umask
from .protocol.light_asyncio import light_asyncio


def main() -> int:
    if sys.version_info < (3, 8):
        print(json.dumps({"reason": "NO_PYTHON", "message": "Python %s" % sys.version.split()[0]}))
        return 3
    umask.make_private()
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role == "conductor":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an early interrupt must not end it
        light_asyncio()
        from .pod.launch import run_conductor

        return run_conductor(sys.argv[0])
    if role == "pod-member":
        light_asyncio()
        from .pod.member import run_member

        return run_member()
    if role == "sessions":
        from .session.stored import main as run_stored_sessions

        return run_stored_sessions()
    if role == "home":
        from .home.program import main as run_home

        return run_home()
    if role == "up":
        from .daemon.start import start_daemon

        return start_daemon()
    if role == "daemon":
        from .daemon.start import run_daemon

        return run_daemon()
    if role == "guard":
        from .daemon.start import run_guard_process

        return run_guard_process()
    print(
        "usage: python AGENT_FOLDER up|daemon|guard|conductor|pod-member|sessions|home",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
