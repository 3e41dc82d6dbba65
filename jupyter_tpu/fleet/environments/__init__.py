"""Python environments of hosts, their packages, and the projects that are mirrored to them.

They stay on the hosts when a TPU is disconnected, and are there when it is connected again.
"""
