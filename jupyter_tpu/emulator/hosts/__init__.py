"""The hosts of emulated TPUs: real processes behind real SSH, each in namespaces of its own.

`Runtime.probe` finds out what this machine allows, `Runtime.start` boots a host, and the
`RunningHost` that it gives is what the emulator talks to. What a host *is* in Cloud TPU's words
(types, workers, variables, keys in metadata) is decided by the caller and comes in a `HostSpec`.
"""

from .runtime import RunningHost, Runtime
from .spec import HostSpec
