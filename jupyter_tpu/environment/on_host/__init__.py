"""Runs on a host, sent there over standard input: probes it, gets uv, creates the environment.

Standard library only, Python 3.8. Its output on standard output is one JSON object per line:
``{"log": …}``, ``{"part": 0…1}`` and at the end ``{"result": …}`` or ``{"error": [reason,
message, hint]}``. The processes it starts end with it: when its session ends, and when no one reads
its output any more.
"""
