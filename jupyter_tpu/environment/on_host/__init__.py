"""Runs on a host, sent there over standard input: looks at it, gets uv, makes the environment.

Standard library only, Python 3.8. What it says goes to standard output, a JSON object a line:
``{"log": …}``, ``{"part": 0…1}`` and at the end ``{"result": …}`` or ``{"error": [reason,
message, hint]}``. What it starts ends with it: when its session is ended, and when nobody reads
what it says any more.
"""
