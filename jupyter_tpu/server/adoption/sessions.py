"""Follows changes of the server's table of sessions.

The session manager may be of any class, so its methods are not replaced. SQLite reports changes by
temporary triggers, which exist as long as the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_TRIGGERS = """
CREATE TEMP TRIGGER jupyter_tpu_insert AFTER INSERT ON session BEGIN
  SELECT jupyter_tpu_set(NEW.kernel_id, NEW.session_id, NEW.path, NEW.name, NEW.type);
END;
CREATE TEMP TRIGGER jupyter_tpu_update AFTER UPDATE ON session BEGIN
  SELECT jupyter_tpu_set(NEW.kernel_id, NEW.session_id, NEW.path, NEW.name, NEW.type);
END;
CREATE TEMP TRIGGER jupyter_tpu_delete AFTER DELETE ON session BEGIN
  SELECT jupyter_tpu_drop(OLD.session_id);
END;
"""


def follow_sessions(
    manager: Any, on_set: Callable[..., None], on_drop: Callable[[str], None]
) -> None:
    """Calls *on_set* with kernel id, session id, path, name and type, and *on_drop* with the id.

    A manager without such a table, such as a gateway's, has no kernels of ours.
    """
    if not hasattr(manager, "cursor") or not hasattr(manager, "connection"):
        return
    cursor = manager.cursor  # creates the table
    manager.connection.create_function("jupyter_tpu_set", 5, on_set)
    manager.connection.create_function("jupyter_tpu_drop", 1, on_drop)
    cursor.executescript(_TRIGGERS)
