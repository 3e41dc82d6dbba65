"""What is known: desired state (kept in the store), observed state, and the feed of changes."""
