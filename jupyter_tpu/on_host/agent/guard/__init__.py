"""The guard: decides on a host when its TPU has to stop, and asks Google to do so.

It needs no client: what it does continues while every computer of its user is off.
"""
