"""What runs on a host, with the Python that is there: the standard library only, Python 3.8.

Each folder is one subject.
"""
