"""Kernels outlive the server: it detaches from them when it stops, and the next server adopts them.

Other kernels are not affected. A server start imports only :class:`Adoption`; the rest is imported
with the first kernel.
"""

from .adoption import Adoption
