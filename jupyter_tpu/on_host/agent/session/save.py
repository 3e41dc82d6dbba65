"""One save of a kernel's variables: what is new is written, and then the manifest.

In a pod kernel each host takes part: host 0 plans who writes what, each host writes, and when all
have written, host 0 writes the manifest. Until then the session is the one before.
"""

import contextlib
import functools
import hashlib
import json
import re
import secrets
import sys
import time

from . import arrays, pickling, plain
from .hosts import Cancelled, merged_reasons
from .storage import SessionError, contents_of, done

#: IPython's own variables. Results are saved as those of Out.
_OWN = re.compile(r"_{1,3}|_\d+|_i{1,3}|_i\d+|_[io]h|_dh|_exit_code|In|Out|__.*__")
#: What one variable may take in a save that nobody has asked for in a cell.
VARIABLE_SECONDS = 10
#: How often a save begins anew because arrays were donated meanwhile.
ATTEMPTS = 3


class SessionReport:
    """What was saved or restored.

    names: of the variables. reasons: why others were not, by name. notes: sentences about what is
    otherwise here. size: bytes; new: those of them that had to be written. hosts: that took part.
    """

    def __init__(
        self, names, reasons, notes=(), size=0, new=0, saved=0.0, source=None, hosts=1, seconds=0.0
    ):
        self.names, self.reasons, self.notes = names, reasons, list(notes)
        self.size, self.new, self.saved, self.source = size, new, saved, source or {}
        self.hosts, self.seconds = hosts, seconds


@functools.lru_cache(maxsize=1)
def _distributions():
    from importlib import metadata

    find = getattr(metadata, "packages_distributions", dict)  # Python 3.10
    return find()


def packages_of(modules):
    """What pip calls them: {"sklearn": "scikit-learn==1.7.0"}."""
    from importlib import metadata

    packages = {}
    for module in sorted(modules.difference(getattr(sys, "stdlib_module_names", ()))):
        for name in _distributions().get(module, ())[:1]:
            with contextlib.suppress(metadata.PackageNotFoundError):
                packages[module] = "%s==%s" % (name, metadata.version(name))
    return packages


class Save:
    """One save: a snapshot of the variables, and what has to be written of it.

    kind: "cell", "asked", "auto" or "final": the hosts of a pod kernel do each in the same order.
    """

    def __init__(self, session, storage, name, kind="cell"):
        self._session, self._storage, self._name = session, storage, name
        self._kind, self._moment = kind, session.moment(kind)
        self._begun = time.monotonic()
        self._cancelled = False
        self._written = set()  # of this save
        self._groups, self._reasons = [], {}
        self._order, self._inputs, self._plain = [], [], {}
        self._failed = None
        try:
            self._snapshot()
        except Exception as error:  # of the objects' own classes: `finish` says it to all hosts
            self._failed = error

    @property
    def names(self):
        """The variables that are saved. Raises why there can't be any."""
        if self._failed is not None:
            raise self._failed
        return [name for name in self._order if name not in self._reasons]

    def cancel(self):
        """`finish` raises `Cancelled` as soon as it can."""
        self._cancelled = True

    def _is_cancelled(self):
        return self._cancelled

    def _snapshot(self):
        shell = self._session.shell
        variables = {
            name: value
            for name, value in list(shell.user_ns.items())
            if not _OWN.fullmatch(name)
            and not (name in shell.user_ns_hidden and value is shell.user_ns_hidden[name])
        }
        for number, value in list(shell.user_ns.get("_oh", {}).items()):
            variables["Out[%d]" % number] = value
        self._order = list(variables)
        self._inputs = list(shell.history_manager.input_hist_parsed)
        own = self._session.arrays
        own.stored = self._there
        own.moment = self._moment
        own.seen.clear()
        seconds = 0 if self._kind == "cell" else VARIABLE_SECONDS
        self._groups, self._reasons = pickling.dump(variables, shell.user_ns, own, seconds)
        saved = {name: variables[name] for group in self._groups for name in group.names}
        self._plain = plain.encode_all(saved, lambda value: own.seen.get(id(value)))
        own.seen.clear()

    @property
    def _there(self):
        """The keys and digests that this kernel has written to this session, or read from it."""
        return self._session.written.setdefault((self._storage.url, self._name), set())

    @property
    def _needed(self):
        return sorted({key for group in self._groups for key in group.arrays})

    def finish(self):
        """Writes what is new; the session is the new one when all of it is there.

        Raises `SessionError`, `Cancelled`, or what the storage raises. Then the session before
        this one is still there.
        """
        try:
            return self._finish()
        except BaseException:
            self._session.tidy.discard((self._storage.url, self._name))
            raise

    def _finish(self):
        hosts, own = self._session.hosts, self._session.arrays
        for attempt in range(ATTEMPTS):
            name = "%s.%d" % (self._moment, attempt)
            plan = hosts.agree(
                name + ".plan", self._needs, self._plan,
                first=self._kind != "auto", cancelled=self._is_cancelled,
            )  # fmt: skip
            unlike = set(plan["unlike"])
            if unlike and not attempt:  # a host has missed the end of an earlier save
                own.forget_keys()
            elif unlike:
                self._leave_out(unlike)
            if not unlike or attempt:
                try:
                    return self._commit(name + ".commit", plan)
                except arrays.CannotKeep as error:
                    if hosts.count > 1 or attempt == ATTEMPTS - 1:
                        raise SessionError(
                            "The variables change too quickly to be saved: %s." % error
                        ) from None
            if self._kind == "auto" and hosts.count > 1:
                raise Cancelled  # a snapshot of all hosts is taken between two cells only
            self._moment = name
            self._snapshot()
        raise AssertionError("not reached")

    # ---- the plan

    def _needs(self):
        """What this host has to have in the session: its bytes, and whether they are there."""
        own, there = self._session.arrays, self._there
        own_disk = self._session.hosts.index and not self._session.is_shared(self._storage)
        if own_disk and self._storage.has_manifest(self._name):
            raise SessionError(
                "A kernel on this host only has another session %s. Choose another NAME."
                % self._name
            )
        _, needed = self.names, self._needed
        local = {key: own.records[key]["bytes"] for key in needed if not own.hosts_of(key)}
        local.update((group.digest, len(group.data)) for group in self._groups)
        return {
            "known": self._session.known.get((self._storage.url, self._name)),
            "there": [key for key in (*local, *needed) if key in there],
            "local": local,
            "common": {
                key: [own.records[key]["bytes"], own.hosts_of(key)]
                for key in needed
                if own.hosts_of(key)
            },
            "part": self._part()[0],
        }

    def _plan(self, needs):
        """On host 0: which host writes what. `lists` is None if each has a disk of its own."""
        before, self._generation = self._session.check(self._storage, self._name)
        save = before and before["save"]
        have = {key for need in needs if need["known"] == save for key in need["there"]}
        self._before = contents_of(before)
        have &= self._before
        shared, seen = self._session.is_shared(self._storage), set(have)
        lists, self._size = [], 0
        for need in needs:
            new = [key for key in need["local"] if key not in seen]
            lists.append(new)
            seen.update(new if shared else ())
        sizes: "dict[str, int]" = {}
        for need in needs:
            sizes.update((key, size) for key, (size, _) in need["common"].items())
            sizes.update(need["local"] if shared else {})
            self._size += 0 if shared else sum(need["local"].values())
        self._size += sum(sizes.values())
        common = {key: of for need in needs for key, (_, of) in need["common"].items()}
        unlike = [
            key
            for key, of in common.items()
            if any(key not in needs[host]["common"] for host in of)
        ]
        return {
            "save": save,
            "lists": lists if shared else None,
            "common": [key for key in common if key not in have],
            "unlike": unlike,
            "part": needs[0]["part"] if shared else "",
        }

    def _leave_out(self, keys):
        for group in self._groups:
            if keys.intersection(group.arrays):
                reason = "an array that is not the same on all hosts"
                self._reasons.update(dict.fromkeys(group.names, reason))
        self._groups = [group for group in self._groups if not keys.intersection(group.arrays)]
        for name in self._reasons:
            self._plain.pop(name, None)

    def _part(self):
        """What the manifest says of this host: its digest, and it as JSON."""
        records = self._session.arrays.records
        part = {
            "order": self._order,
            "inputs": self._inputs,
            "reasons": self._reasons,
            "plain": {"version": plain.VERSION, "values": self._plain},
            "arrays": {key: records[key] for key in self._needed},
            "groups": [
                {
                    "names": group.names,
                    "digest": group.digest,
                    "arrays": group.arrays,
                    "has_code": group.has_code,
                    "bytes": len(group.data),
                }
                for group in self._groups
            ],
        }
        data = json.dumps(part).encode()
        return hashlib.sha256(data).hexdigest(), data

    # ---- writing

    def _commit(self, step, plan):
        hosts, session, storage, name = (
            self._session.hosts, self._session, self._storage, self._name,
        )  # fmt: skip
        result = hosts.agree(
            step, lambda: self._write(plan), self._write_manifest,
            # What other hosts have written may be part of a session already.
            cancelled=self._is_cancelled if hosts.index == 0 else lambda: False,
        )  # fmt: skip
        session.known[storage.url, name] = result["save"]
        needed = self._needed
        self._there.clear()
        self._there.update(needed, (group.digest for group in self._groups))
        session.arrays.keep_only(needed)
        place = storage.url, name
        if hosts.index == 0 and place in session.tidy:
            storage.remove(name, self._before - contents_of(self._manifest))
        elif hosts.index == 0:
            storage.remove_unused(name, contents_of(self._manifest))
            session.tidy.add(place)
        elif plan["lists"] is None:
            digest, data = self._part()
            storage.remove_unused(name, contents_of(json.loads(data)) | {digest})
        return SessionReport(**result["report"])

    def _write(self, plan):
        """Writes what this host has to; returns what host 0 has to know of it."""
        there, index = self._there, self._session.hosts.index
        if plan["save"] != self._session.known.get((self._storage.url, self._name)):
            there.clear()
        needed = {*self._needed, *(group.digest for group in self._groups)}
        if plan["lists"] is None:
            new = needed - there
        else:
            new = needed & {*plan["lists"][index], *plan["common"]}
        new -= self._written
        size = self._write_arrays([key for key in self._needed if key in new])
        values = {group.digest: group.data for group in self._groups if group.digest in new}
        size += sum(map(len, values.values()))
        digest, data = self._part()
        differs = index and digest != plan["part"]
        if differs:
            values[digest] = data
        self._storage.write_values(self._name, values)
        if self._cancelled:
            raise Cancelled
        contents = sorted(contents_of(json.loads(data))) if differs else None
        return {"part": digest, "contents": contents, "new": size, "reasons": self._reasons}

    def _write_arrays(self, keys):
        """Writes arrays, of which only so many bytes are on their way; returns the bytes."""
        own, target = self._session.arrays, self._storage.arrays(self._name)
        replicas = not self._session.is_shared(self._storage)
        waiting: "list[tuple]" = []
        size = total = written = 0
        whole = sum(map(own.bytes_here, keys))

        def finish_first():
            nonlocal written
            key, futures, bytes_of = waiting.pop(0)
            for future in futures:
                done(future, self._storage.url)
            self._written.add(key)
            written += bytes_of
            self._session.moved(written, whole)
            return bytes_of

        for key in keys:
            bytes_here = own.bytes_here(key)
            while waiting and size + bytes_here > arrays.IN_FLIGHT_BYTES:
                size -= finish_first()
            if self._cancelled:
                raise Cancelled
            waiting.append((key, own.write(key, target, replicas), bytes_here))
            size += bytes_here
            total += bytes_here
        while waiting:
            finish_first()
        return total

    # ---- the manifest

    def _write_manifest(self, written):
        """On host 0, when all have written: the session exists from here on."""
        digest, data = self._part()
        others = [of for of in written[1:] if of["contents"] is not None and of["part"] != digest]
        contents = {key for of in others for key in of["contents"]}
        parts = [of["part"] if of in others else None for of in written]
        part = json.loads(data)
        self._manifest = manifest = {
            **self._header(),
            **part,
            "hosts": len(written),
            "shared": self._session.is_shared(self._storage),
            "parts": parts,
            "others": sorted(contents - contents_of(part)),
            "bytes": self._size,
        }
        if self._cancelled:
            raise Cancelled
        self._storage.write_manifest(self._name, manifest, self._generation)
        report = {
            "names": self.names,
            "reasons": merged_reasons([of["reasons"] for of in written]),
            "size": self._size,
            "new": sum(of["new"] for of in written),
            "saved": manifest["saved"],
            "hosts": len(written),
            "seconds": time.monotonic() - self._begun,
        }
        return {"save": manifest["save"], "report": report}

    def _header(self):
        jax = sys.modules.get("jax")
        # JAX is not started for this: its program may not have chosen its devices yet.
        started = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
        return {
            "save": secrets.token_hex(8),
            "saved": time.time(),
            "about": self._session.about,
            "packages": packages_of({name for group in self._groups for name in group.modules}),
            "python": list(sys.version_info[:2]),
            "jax": None if jax is None else jax.__version__,
            "devices": len(jax.devices()) if jax and started else None,
            "local_devices": len(jax.local_devices()) if jax and started else None,
            "x64": None if jax is None else bool(jax.config.jax_enable_x64),
            "prng": None if jax is None else jax.config.jax_default_prng_impl,
        }
