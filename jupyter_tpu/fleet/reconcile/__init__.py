"""The loop that compares desired with observed state and acts; and how each TPU is shown."""
