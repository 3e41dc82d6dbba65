"""A server of a model as a job: its health, its restarts, and what it says of its requests."""
