"""The pod kernel: one kernel that runs each cell on all hosts of a TPU.

To the keeper of host 0 the conductor is an ordinary kernel, so a pod's cells have the same journal
as any other. It starts one ipykernel on each host (`member`), decides what runs when (`pod_state`),
and shows output that is equal on all hosts once (`folding`).
"""
