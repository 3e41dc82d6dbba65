"""What the emulated service knows and how it changes: nodes, operations, faults; no I/O."""
