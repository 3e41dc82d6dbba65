"""``python -m jupyter_tpu.cli``: the same as ``jupyter tpu``."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
