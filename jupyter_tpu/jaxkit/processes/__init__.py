"""Child processes: messages over pipes, and limits of time and memory."""
