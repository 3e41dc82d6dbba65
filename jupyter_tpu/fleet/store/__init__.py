"""What is written down: desired state and operations in SQLite, and which process runs what."""
