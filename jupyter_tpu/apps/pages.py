"""Our own pages at an app's origin: when the host's can't be shown, and to test the browser."""

from __future__ import annotations

import base64
import hashlib
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

#: Tells the page that frames it whether scripts of this origin may store data there. Browsers that
#: block third-party storage raise an error, and many applications don't expect it.
_STORAGE_SCRIPT = """
let storage = true;
try {
  localStorage.getItem("");
} catch {
  storage = false;
}
parent.postMessage({ storage }, "*");
"""
STORAGE_PAGE = f"<!doctype html><title>Storage</title><script>{_STORAGE_SCRIPT}</script>"
#: The source of its script, for a Content-Security-Policy.
STORAGE_SCRIPT_SOURCE = (
    f"'sha256-{base64.b64encode(hashlib.sha256(_STORAGE_SCRIPT.encode()).digest()).decode()}'"
)
