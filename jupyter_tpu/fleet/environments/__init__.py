"""Python environments of hosts, their packages, and the projects that are mirrored to them."""
