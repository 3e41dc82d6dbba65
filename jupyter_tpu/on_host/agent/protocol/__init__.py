"""What both ends agree on: the journal protocol, Jupyter's messages, and where sockets are.

The client, the daemons and the keepers use it, of this version and of others.
"""
