"""What is stored on disk: desired state and operations in SQLite, and which process runs them."""
