"""Programs that other programs of ours run in an environment's own Python, as ``python -c``."""
