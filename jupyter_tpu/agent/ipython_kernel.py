"""What a keeper runs: ipykernel, but with an iopub socket that never drops.

ipykernel's iopub drops silently at 1000 messages that its reader has not taken. The keeper always
takes them, so here there is no such mark. Run as a script, in the environment's own Python; it must
not import anything else of the agent.
"""

import signal
import sys


def main() -> None:
    # An interrupt that comes before the kernel is ready for one must not end it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A script's folder comes first in sys.path; the user's modules are not there.
    del sys.path[0]

    import zmq
    from ipykernel.kernelapp import IPKernelApp

    class Application(IPKernelApp):
        name = "ipython-kernel"

        def _bind_socket(self, s, port):
            if s.type in (zmq.PUB, zmq.XPUB):
                s.sndhwm = 0
            return super()._bind_socket(s, port)

    Application.launch_instance()


if __name__ == "__main__":
    main()
