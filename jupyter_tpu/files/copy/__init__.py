"""Copies of files and folders between this computer and hosts."""

from .models import FileProblem, HostCopy
