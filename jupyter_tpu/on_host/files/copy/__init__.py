"""A copy of files and folders: the programs of its two ends. They run on hosts, sent over standard
input, and in this process.

The two ends exchange lines of JSON, and after ``{"data": n}`` n bytes of a file:

    sender    {"entries": [...]} …, {"listed": number}
    receiver  {"plan": …}: which files it needs, and from which byte on
    sender    {"file": number, "offset": n}, {"data": n} …, {"sha256": …} for each, {"sent": true}
    receiver  {"again": [...]}: files whose kept beginning was wrong, which are sent again
    receiver  {"result": …}

Each end may send {"error": …} instead, and ends. Nothing in the destination changes before the
plan.
"""
