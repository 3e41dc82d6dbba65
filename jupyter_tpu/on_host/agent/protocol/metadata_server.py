"""Where this VM's metadata server is."""

from __future__ import annotations

import os

#: Each request must have it, and each answer has it.
FLAVOR = "Metadata-Flavor: Google"


def metadata_url(path: str) -> str:
    """The URL of *path*; an emulated host's variable has another server, and a folder of it."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    return "http://%s/computeMetadata/v1/%s" % (host, path)
