"""English sentences in the reader's language, at a terminal and at the border of the server.

All other code speaks English, which costs nothing: catalogues and their matching are imported for
another language only.
"""

from .catalogues import LANGUAGES, accepted, catalogue_of, in_terminal, on_pages
from .fields import in_language

__all__ = ["LANGUAGES", "accepted", "catalogue_of", "in_language", "in_terminal", "on_pages"]
