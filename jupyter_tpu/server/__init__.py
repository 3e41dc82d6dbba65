"""The Jupyter Server extension. Its handlers only translate between HTTP and the fleet."""

from .app import TPUExtension
