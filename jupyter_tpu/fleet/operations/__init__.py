"""What takes longer than a second: run, written down, cancelled. One file per operation."""
