"""Hunts: the search for capacity over zones, types and tiers, until there is a TPU."""
