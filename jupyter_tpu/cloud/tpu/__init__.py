"""The Cloud TPU API: the client, nodes in both of its forms, and long-running operations."""

from .client import CloudTPU
from .nodes import has_ssh_key, uses_os_login
