"""Chosen folders of the host's home, kept in a bucket: what is taken, how it is saved, and how it
comes back. `chosen` needs the standard library only; what uses a bucket runs in an environment.
"""
