"""What a host's Python reads first, before it can import anything of ours. `packing` sends it."""
