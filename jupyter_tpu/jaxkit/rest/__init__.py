"""REST's requests to jaxkit, answered by worker processes; private to the server."""
