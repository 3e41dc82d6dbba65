"""What Google reports, asked once for all: which TPUs there are, and what can be created."""
