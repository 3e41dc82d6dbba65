"""Cloud Storage over REST: its JSON API, as far as its clients use it."""

from .routes import STORAGE_METHODS, add_routes
