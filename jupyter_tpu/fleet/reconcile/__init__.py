"""The loop that compares desired with observed state and acts."""
