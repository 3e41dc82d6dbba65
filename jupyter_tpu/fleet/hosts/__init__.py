"""The hosts of connected TPUs: their links, and what their agents report of kernels and chips."""
