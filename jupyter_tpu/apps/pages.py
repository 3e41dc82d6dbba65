"""Our own pages, shown when the host's page can't be."""

from __future__ import annotations

import html


def page(name: str, message: str, hint: str, *, refresh: bool = False) -> str:
    """HTML. *name*: its title; *refresh*: it reloads every 3 seconds."""
    if refresh:
        hint = f"{hint} This page reloads automatically.".strip()
    return _PAGE.format(
        refresh='<meta http-equiv="refresh" content="3">' if refresh else "",
        name=html.escape(name),
        message=html.escape(message),
        hint=html.escape(hint),
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{refresh}<title>{name}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; max-width: 34em; margin: 18vh auto; padding: 0 2em; }}
h1 {{ font-size: 1.2em; }}
</style></head><body><main><h1>{message}</h1><p>{hint}</p></main></body></html>
"""
