"""Where sessions are: a folder or a bucket, with one manifest for each session.

    manifests/NAME.json           the session; it exists when this is written, and not before
    data/NAME/values/DIGEST       a group of variables, see `pickling`; or what the manifest
                                  says of a host other than 0 of a pod
    data/NAME/arrays/KEY/         an array, see `arrays`

A manifest is signed: what it names is unpickled, which runs code of whoever wrote it.
"""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import time
import urllib.parse

#: The version of the format. A newer one is not read.
FORMAT = 1
#: Characters of a group's digest. The keys of arrays are shorter.
DIGEST_LENGTH = 64
#: A larger manifest is not parsed: whoever may write the bucket could have made it.
LARGEST_MANIFEST_BYTES = 256 << 20
#: Where sessions are that are on their way to the user's computer, or from there. What is older is
#: left from a process that has ended.
COPIES = os.path.join("~", ".jupyter-tpu", "session-copies")
COPY_SECONDS = 86_400
#: How often a session is linked again because it was saved meanwhile.
LINK_ATTEMPTS = 5


class SessionError(Exception):
    """What went wrong, in one sentence."""


def done(future, url):
    """What a call of TensorStore has given; its failures as `SessionError`."""
    try:
        return future.result()
    except Exception as error:  # of any class, in many lines
        text = " ".join(str(error).partition("[source locations")[0].split())
        raise SessionError("%s can't be used: %s" % (url, text[:300])) from None


class Storage:
    """The sessions in one place.

    url: "gs://BUCKET/FOLDER", or the absolute path of a folder.
    key: signs the manifests.
    """

    def __init__(self, url, key):
        import tensorstore

        self.url, self._key = url, key
        self.errors = SessionErrors("in %s" % url)
        self.is_bucket = url.startswith("gs://")
        if self.is_bucket:
            bucket, _, path = url[len("gs://") :].partition("/")
            self._spec = {"driver": "gcs", "bucket": bucket, "path": _folder(path)}
        else:
            os.makedirs(url, mode=0o700, exist_ok=True)
            self._spec = {"driver": "file", "path": _folder(os.path.abspath(url))}
        self._store = done(tensorstore.KvStore.open(self._spec), url)

    def _done(self, future):
        return done(future, self.url)

    def signed_name(self, name):
        """The name in the signature of a manifest."""
        return name

    def arrays(self, name):
        """Where the arrays of a session are, as a spec of TensorStore."""
        return {**self._spec, "path": "%s%sarrays/" % (self._spec["path"], data_path(name))}

    def manifest(self, name):
        """The manifest and its generation; None and that of nothing if there is no such session."""
        result = self._done(self._store.read(manifest_path(name)))
        if result.state != "value":
            return None, result.stamp.generation
        signed_as = self.signed_name(name)
        manifest = read_manifest(name, result.value, self._key, self.errors, signed_as)
        return manifest, result.stamp.generation

    def has_manifest(self, name):
        return bool(self._done(self._store.read(manifest_path(name))).state == "value")

    def write_manifest(self, name, manifest, generation):
        """The moment from which on the session is the new one."""
        body = json.dumps({**manifest, "format": FORMAT})
        data = json.dumps(
            {"manifest": body, "signature": signature_of(self.signed_name(name), body, self._key)}
        ).encode()
        stamp = self._done(self._store.write(manifest_path(name), data, if_equal=generation))
        if not stamp.generation:
            raise self.errors.taken(name)

    def write_values(self, name, values):
        """values: {digest: bytes}."""
        for future in [
            self._store.write(values_path(name) + digest, data) for digest, data in values.items()
        ]:
            self._done(future)

    def read_values(self, name, digest):
        """A group's pickle, if it is what the manifest names."""
        data = self._done(self._store.read(values_path(name) + digest)).value
        if hashlib.sha256(data).hexdigest() != digest:
            raise SessionError("A part of the session %s is missing or damaged." % name)
        return data

    def remove_unused(self, name, used):
        """Removes what is not among *used*: keys of arrays and digests."""
        own = data_path(name)
        keys = self._done(self._store.list(keys_below(own)))
        unused = [key.decode() for key in keys if _owner(key.decode(), own) not in used]
        for future in [self._store.write(key, None) for key in unused]:
            self._done(future)
        self._remove_folders(own)

    def remove(self, name, contents):
        """Removes these keys of arrays and digests. Quicker than to look at all that is there."""
        own = data_path(name)
        values = ["%svalues/%s" % (own, each) for each in contents if len(each) == DIGEST_LENGTH]
        folders = ["%sarrays/%s/" % (own, each) for each in contents if len(each) < DIGEST_LENGTH]
        for future in [
            *(self._store.write(key, None) for key in values),
            *(self._store.delete_range(keys_below(folder)) for folder in folders),
        ]:
            self._done(future)
        for folder in folders:
            self._remove_folders(folder)

    def _remove_folders(self, path):
        """On a disk: those below, and this, which are empty."""
        if self.is_bucket:
            return
        for folder, _, _ in os.walk(self._spec["path"] + path, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(folder)

    def forget(self, name):
        """Removes a session; False if there is none of this name.

        A mark is in the manifest's place meanwhile: a save that has begun before can't end then.
        """
        found, mark = self.mark_forgotten(name)
        self.remove_unused(name, set())
        self._done(self._store.write(manifest_path(name), None, if_equal=mark))
        return found

    def mark_forgotten(self, name):
        """Ends a session at once; whether there was one, and the generation of the mark."""
        path = manifest_path(name)
        before = self._done(self._store.read(path))
        write = self._store.write(path, b'{"forgotten": true}', if_equal=before.stamp.generation)
        mark = self._done(write).generation
        if not mark:
            raise self.errors.just_saved(name)
        return bool(before.state == "value"), mark

    def link(self, name, copy, of_pod):
        """On a disk: the files of a session in a folder of their own, where they stay as they are
        while the session is saved again. Returns their bytes, and which save it is.

        of_pod: those of a host other than 0, which has no manifest.
        """
        for _ in range(LINK_ATTEMPTS):
            save = None if of_pod else self._save_of(name)
            size = self._link(name, copy_folder(copy), of_pod)
            if of_pod or save == self._save_of(name):
                return size, save
        raise SessionError(
            "The session %s is saved too often to copy it. Stop its cells, and try again." % name
        )

    def _save_of(self, name):
        manifest, _ = self.manifest(name)
        if manifest is None:
            raise SessionError("There is no session %s in %s." % (name, self.url))
        return manifest["save"]

    def _link(self, name, target, of_pod):
        remove_copies(os.path.basename(target))
        top, size = self._spec["path"], 0
        if not of_pod:
            os.makedirs(os.path.join(target, "manifests"), 0o700)
            os.link(top + manifest_path(name), os.path.join(target, manifest_path(name)))
        for folder, _, files in os.walk(top + data_path(name)):
            there = os.path.join(target, os.path.relpath(folder, top))
            os.makedirs(there, 0o700, exist_ok=True)
            for file in files:
                with contextlib.suppress(FileNotFoundError):  # the next save has removed it
                    os.link(os.path.join(folder, file), os.path.join(there, file))
                    size += os.stat(os.path.join(there, file)).st_size
        return size

    def leave_mark(self):
        """Writes a file by which other hosts see that this is the same folder; returns its name."""
        mark = "marks/" + secrets.token_hex(8)
        self._done(self._store.write(mark, b""))
        return mark

    def has_mark(self, mark):
        return bool(self._done(self._store.read(mark)).state == "value")

    def remove_mark(self, mark):
        self._done(self._store.write(mark, None))

    def list(self):
        """The names of the sessions."""
        keys = self._done(self._store.list(keys_below("manifests/")))
        names = [key.decode()[len("manifests/") : -len(".json")] for key in keys]
        return sorted(map(urllib.parse.unquote, names))


class SessionErrors:
    """What is said of the sessions in a place; there are others for what else is stored so.

    where: "in gs://…", "on this computer".
    """

    def __init__(self, where):
        self.where = where

    def being_deleted(self, name):
        return SessionError(
            "The session %s %s is being deleted. If that was interrupted, delete it again."
            % (name, self.where)
        )

    def damaged(self, name):
        return SessionError("The session %s %s is damaged." % (name, self.where))

    def of_others(self, name):
        return SessionError(
            "The session %s %s is signed with another key: somebody else may have saved it. "
            "It is not read, because that would run its code." % (name, self.where)
        )

    def newer(self, name, version):
        return SessionError(
            "The session %s was saved by a newer version of jupyter-tpu, %s. Update it."
            % (name, version)
        )

    def just_saved(self, name):
        return SessionError("The session %s has just been saved. Try again." % name)

    def taken(self, name):
        return SessionError(
            "Another kernel saves the session %s. Choose another name: %%tpu session save NAME"
            % name
        )


def read_manifest(name, data, key, errors, signed_as=""):
    """The manifest of a session, if it is of the user of *key*; raises `SessionError`.

    signed_as: the name in the signature, if it is another one.
    """
    try:
        if len(data) > LARGEST_MANIFEST_BYTES:
            raise ValueError
        envelope = json.loads(data)
        if envelope.get("forgotten"):
            raise errors.being_deleted(name)
        body, signature = envelope["manifest"], envelope["signature"]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise errors.damaged(name) from None
    if not hmac.compare_digest(str(signature), signature_of(signed_as or name, body, key)):
        raise errors.of_others(name)
    manifest = json.loads(body)
    if manifest["format"] > FORMAT:
        raise errors.newer(name, manifest.get("version", ""))
    return manifest


def signature_of(name, body, key):
    return hmac.new(key, ("%s\0%s" % (name, body)).encode(), hashlib.sha256).hexdigest()


def own_key(path):
    """The key in a file, which is made if it is missing."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        pass
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = "%s.%s" % (path, secrets.token_hex(4))
    with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(secrets.token_bytes(32))
    try:
        os.link(draft, path)  # unless another kernel has just done it
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
    return own_key(path)


def copy_folder(copy):
    """The folder of a session that is on its way to the user's computer, or from there."""
    return os.path.join(os.path.expanduser(COPIES), os.path.basename(copy))


def remove_copies(copy):
    """Removes one, and those that were left."""
    folder = os.path.expanduser(COPIES)
    os.makedirs(folder, 0o700, exist_ok=True)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if name == copy or os.stat(path).st_mtime < time.time() - COPY_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def keys_below(prefix):
    import tensorstore

    return tensorstore.KvStore.KeyRange(prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))


def contents_of(manifest):
    """The keys of arrays and the digests that a manifest, or a host's part of one, names."""
    if manifest is None:
        return set()
    return {
        *manifest["arrays"],
        *(group["digest"] for group in manifest["groups"]),
        *filter(None, manifest.get("parts", ())),
        *manifest.get("others", ()),
    }


def _owner(key, own):
    """The key or digest of the array or group that a file of the storage belongs to."""
    return "".join(key[len(own) :].split("/")[1:2])


def _folder(path):
    return path.rstrip("/") + "/" if path.strip("/") else ""


def manifest_path(name):
    """Where the manifest of a session is, from the folder of all sessions."""
    return "manifests/%s.json" % _quoted(name)


def values_path(name):
    """Where its groups are, each by its digest."""
    return "%svalues/" % data_path(name)


def data_path(name):
    """The folder of all else."""
    return "data/%s/" % _quoted(name)


def _quoted(name):
    """A name as one part of a path, which "." and ".." are not."""
    return urllib.parse.quote(name, safe="").replace(".", "%2E")
