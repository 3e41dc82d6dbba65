"""A face: the Jupyter Server extension, whose handlers only translate."""

from .app import TPUExtension

__all__ = ["TPUExtension"]
