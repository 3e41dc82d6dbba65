"""Values between a notebook and its kernel on a TPU, as structure and raw buffers.

`frames`, `codec` and `on_host` also run in the kernel on the host, which gets their source: they
import nothing of this package but each other.
"""
