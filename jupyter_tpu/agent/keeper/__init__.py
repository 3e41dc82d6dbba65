"""The keeper: the process on a host that owns one kernel and its journal. It needs pyzmq.

It starts its kernel before it imports the rest, so nothing is imported here.
"""
