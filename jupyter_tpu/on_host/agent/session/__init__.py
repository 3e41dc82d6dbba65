"""Sessions: the variables of a kernel, kept where they outlive it, and put back into another.

Loaded by the keeper's `ipython_kernel` in the environment's own Python, when `%tpu session` is used
first. TensorStore writes and reads the arrays, cloudpickle what the notebook defines.
"""
