"""What is known: desired and observed state, and who hears of its changes. No I/O of its own."""
