"""The chips of a host, and the processes that hold them."""
