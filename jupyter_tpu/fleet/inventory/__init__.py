"""Which TPUs there are, from all that is known, and how each is shown."""
