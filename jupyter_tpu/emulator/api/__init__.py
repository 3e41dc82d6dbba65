"""What the emulator answers, over gRPC and REST: Cloud TPU v2 and v2alpha1, a few calls of Compute
Engine, and the emulator's own admin calls.
"""
