"""Arrays and batches over a mesh: what each device holds, with a picture, and placing batches."""
