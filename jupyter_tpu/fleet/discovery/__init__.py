"""What Google reports: the existing TPUs, and what can be created. A call serves all clients."""
