"""Which TPUs there are, and how each is shown, from desired and observed state."""
