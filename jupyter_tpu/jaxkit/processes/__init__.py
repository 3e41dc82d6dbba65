"""A process of ours: messages over its pipes, limits of time and memory kept from outside."""
