"""Environments on a host: probes it, gets uv, creates and changes them; and pip and uv in them."""
