"""Folders of a host's home that are kept in a bucket, and come back on the next TPU of the name.

The host itself reads and writes the bucket: see `on_host.agent.home`.
"""
