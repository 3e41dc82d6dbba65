"""The hosts of connected TPUs: their links, and what their agents say of kernels and chips."""
