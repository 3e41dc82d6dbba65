"""The chips of hosts: who uses them, how to free them, and their memory and load.

Several kernels can share one host if each gets some of its chips.
"""
