"""Hunts: the search for capacity over zones, types and tiers, until there is a TPU.

A hunt continues after a restart of the server; stopping it deletes what it has asked for.
"""
