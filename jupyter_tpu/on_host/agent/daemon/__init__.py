"""The daemon on a host: it starts keepers, keeps kernels warm, and reports chips and facts."""
