"""What the fleet offers, in this process (`Fleet`) or through a running server (`client`).

A reference (``ref``) to a TPU is its name, or ``zone~name`` (``zone/name``) where two zones have
the same one. All methods raise :class:`~jupyter_tpu.errors.TPUError`: NOT_FOUND for an unknown
reference or id, CONFLICT for an ambiguous one and for what the TPU's state or a running operation
does not allow, INVALID for a wrong request, and what Google answers.

Delete, stop, disconnect and detach shut kernels down. While kernels run they raise KERNELS_RUNNING
unless the request has ``end_kernels``. Delete, stop and detach end jobs, too: they raise
JOBS_RUNNING unless the request has ``end_jobs``.
"""

# ruff: noqa: F403

from .capacity import *
from .fleet import *
from .homes import *
from .hosts import *
from .serving import *
from .sessions import *
