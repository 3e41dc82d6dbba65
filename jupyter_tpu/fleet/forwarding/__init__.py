"""Ports of hosts that are open here: tunnels, web applications and TensorBoard."""
