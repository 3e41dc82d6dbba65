"""Kernels outlive the server: it lets go of them when it stops, and the next one takes them up.

Nothing of this touches a kernel that is not ours. What is imported when a server starts is this
file's :class:`Adoption`; the rest follows with the first kernel.
"""

from .adoption import Adoption

__all__ = ["Adoption"]
