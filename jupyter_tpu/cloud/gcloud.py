"""gcloud's settings, read from its files and variables without running it.

The order is gcloud's own: a ``CLOUDSDK_*`` variable, then the active configuration. The formats
are those of Google Cloud SDK 528.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def config_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """gcloud's configuration folder (``CLOUDSDK_CONFIG``); it need not exist."""
    chosen = environ.get("CLOUDSDK_CONFIG")
    if chosen:
        return Path(chosen)
    return Path.home() / ".config" / "gcloud"


def setting(section: str, key: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """gcloud's value of ``section/key`` ("core", "project"); None where it has none."""
    from_variable = environ.get(f"CLOUDSDK_{section.upper()}_{key.upper()}")
    if from_variable:
        return from_variable
    folder = config_dir(environ)
    name = environ.get("CLOUDSDK_ACTIVE_CONFIG_NAME") or _text(folder / "active_config")
    text = _text(folder / "configurations" / f"config_{name or 'default'}")
    # Raw: values may hold a "%"; not strict: gcloud accepts what was written twice.
    import configparser  # not at the server's start

    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None  # gcloud itself would refuse the file; the missing project is reported later
    return parser.get(section, key, fallback=None) or None


def credentials_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file of the Application Default Credentials, if there is one."""
    chosen = environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    path = Path(chosen) if chosen else config_dir(environ) / "application_default_credentials.json"
    return path if path.is_file() else None


def project(environ: Mapping[str, str] = os.environ) -> str | None:
    """gcloud's project, else the one that belongs to the Application Default Credentials."""
    project_id = setting("core", "project", environ) or environ.get("GOOGLE_CLOUD_PROJECT")
    if project_id:
        return project_id
    path = credentials_file(environ)
    if path is None:
        return None
    try:
        content = json.loads(_text(path) or "{}")
    except ValueError:
        return None
    if not isinstance(content, dict):
        return None
    return content.get("project_id") or content.get("quota_project_id") or None


def zone(environ: Mapping[str, str] = os.environ) -> str | None:
    """gcloud's default zone."""
    return setting("compute", "zone", environ)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
