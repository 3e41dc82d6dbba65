"""Cloud Storage: buckets and their objects, on disk below the emulator's state folder; no HTTP."""

from .buckets import Buckets
