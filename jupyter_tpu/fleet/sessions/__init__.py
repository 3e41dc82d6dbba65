"""The saved variables of kernels: where they are kept, for how long, and what is saved when.

Kernels save and restore; their hosts list and delete; what they say is kept in an index here.
"""
