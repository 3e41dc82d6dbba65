"""TPUs of Compute Engine: one host is an instance, several are a managed instance group."""

from .client import ComputeEngine
