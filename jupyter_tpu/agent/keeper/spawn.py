"""How a keeper starts what it owns. It imports nothing that takes time: the process comes first."""

import _signal
import os


def spawn(command, env, streams):
    """Starts *command* with these descriptors as 0, 1 and 2; returns its process id."""
    os.environ["PATH"] = env.get("PATH", os.defpath)  # where it is looked for
    try:
        return os.posix_spawnp(
            command[0],
            command,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, streams[number], number) for number in (0, 1, 2)],
            setsid=True,
            setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),
        )
    except NotImplementedError:  # of an old C library
        import subprocess

        process = subprocess.Popen(command, env=env, stdin=streams[0], stdout=streams[1],
                                   stderr=streams[2], start_new_session=True)  # fmt: skip
        process.returncode = 0  # it is waited for here
        return process.pid
