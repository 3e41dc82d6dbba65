"""Ports of hosts that are open here: tunnels and web applications."""
