"""What is kept on disk: desired state and operations in SQLite, and which process runs what."""
