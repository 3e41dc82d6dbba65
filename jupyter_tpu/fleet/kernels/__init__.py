"""The kernels on hosts: which there are, warm ones, and what interrupts them.

A kernel ends only if somebody ends it, not with a link or a server.
"""
