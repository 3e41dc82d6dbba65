"""One call of a program on a host: its request, its answer, its child processes, and our folders
there.

Its output on standard output is one JSON object per line: ``{"log": …}``, ``{"part": 0…1}`` and at
the end ``{"result": …}`` or ``{"error": [reason, message, hint]}``. The processes it starts end
with it: when its session ends, and when no one reads its output any more.
"""
