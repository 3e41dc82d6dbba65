"""Ports of hosts that are open here: tunnels, web applications and TensorBoard.

Tunnels open again after a restart of the server, until their user closes them.
"""
