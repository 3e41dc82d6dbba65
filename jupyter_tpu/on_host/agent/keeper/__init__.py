"""Keepers: each is the process on a host that owns one kernel and its journal, or one command and
its output.

They start what they own before they import the rest, so nothing is imported here.
"""
