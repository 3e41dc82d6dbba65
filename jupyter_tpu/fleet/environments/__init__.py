"""Python environments of hosts, and their packages.

They stay on the hosts when a TPU is disconnected, and are there when it is connected again.
"""
