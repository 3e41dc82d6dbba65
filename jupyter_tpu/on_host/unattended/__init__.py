"""A host that prepares itself when it boots, and starts a job."""
