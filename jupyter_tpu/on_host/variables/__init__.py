"""Values between a notebook and its kernel on a TPU, as structure and raw buffers.

These modules run in the kernel, and in the notebook.
"""
