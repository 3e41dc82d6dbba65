"""What SSH connections need on a host: the agent's installation, shells, sockets, keys of a pod."""
