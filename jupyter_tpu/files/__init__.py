"""Files between this computer and hosts, and among hosts: transfers, syncs, shared folders."""
