"""What is known: desired state (kept in the store), observed state, and who hears of changes."""
