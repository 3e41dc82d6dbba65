"""What Google says, asked once for everybody: which TPUs there are, and what can be created."""
