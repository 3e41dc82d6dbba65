"""Where the folders of a home are: beside sessions, in the same form; see `session.storage`.

PLACE/home/PROJECT/manifests/TPU.json      names each file with its parts; written last
PLACE/home/PROJECT/data/TPU/values/DIGEST  a part of a file
"""

from __future__ import annotations

import urllib.parse
from typing import Any, Set

from ..session.storage import SessionError, SessionErrors, Storage, keys_below, values_path

#: Bytes of a file that are one object.
PART_BYTES = 16 << 20


class HomeStorage(Storage):
    """The home folders of the TPUs of a *project*, in *place*: gs://BUCKET/FOLDER."""

    def __init__(self, place: str, project: str, key: bytes) -> None:
        quoted = urllib.parse.quote(project, safe="").replace(".", "%2E")
        super().__init__("%s/home/%s" % (place.rstrip("/"), quoted), key)
        self.errors = HomeErrors("in %s" % place)
        self._project = project

    def signed_name(self, name: str) -> str:
        # What is signed as a session is no home folder, nor one of another project.
        return "home %s %s" % (self._project, name)

    def parts(self, name: str) -> Set[str]:
        """The digests of the parts that are there, also of a save that did not end."""
        prefix = values_path(name)
        keys = self._done(self._store.list(keys_below(prefix)))
        return {key.decode()[len(prefix) :] for key in keys}

    def begin_write(self, name: str, digest: str, data: bytes) -> Any:
        """The write of a part, to be ended by `end`."""
        return self._store.write(values_path(name) + digest, data)

    def begin_read(self, name: str, digest: str) -> Any:
        return self._store.read(values_path(name) + digest)

    def end(self, call: Any) -> Any:
        """What a call has given, when it has ended. Raises SessionError."""
        return self._done(call)

    def remove_parts(self, name: str, digests: Set[str]) -> None:
        for call in [self._store.write(values_path(name) + digest, None) for digest in digests]:
            self._done(call)


class HomeErrors(SessionErrors):
    """What is said of them."""

    def being_deleted(self, name: str) -> SessionError:
        return SessionError(
            "The home folders of %s %s are being deleted. If that was interrupted, delete them "
            "again." % (name, self.where)
        )

    def damaged(self, name: str) -> SessionError:
        return SessionError("The home folders of %s %s are damaged." % (name, self.where))

    def of_others(self, name: str) -> SessionError:
        return SessionError(
            "The home folders of %s %s are signed with another key: somebody else may have "
            "saved them. They are not read, and not replaced." % (name, self.where)
        )

    def newer(self, name: str, version: str) -> SessionError:
        return SessionError(
            "The home folders of %s %s were saved by a newer version of jupyter-tpu, %s. Update "
            "it." % (name, self.where, version)
        )

    def just_saved(self, name: str) -> SessionError:
        return SessionError("The home folders of %s have just been saved. Try again." % name)

    def taken(self, name: str) -> SessionError:
        return SessionError(
            "Another host has just saved the home folders of %s %s." % (name, self.where)
        )
