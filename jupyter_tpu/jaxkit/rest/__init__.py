"""Answers the server's REST requests in worker processes; private."""
