"""What libtpu says of the chips of this host: read over gRPC from the process that has loaded it.

An environment with jax[tpu] has neither grpcio nor a program to read this, so the few bytes of gRPC
that it takes are written here. It runs in the daemon itself: no process is started for it.
"""
