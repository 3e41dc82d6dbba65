"""Saves the variables of a kernel, and restores them in another one."""

import re
import secrets
import sys
import time

from . import arrays, pickling, placement
from .storage import SessionError, done
from .times import local_time

#: IPython's own variables. Results are saved as those of Out.
_OWN = re.compile(r"_{1,3}|_\d+|_i{1,3}|_i\d+|_[io]h|_dh|_exit_code|In|Out|__.*__")
#: How often a save begins anew because arrays were donated meanwhile.
ATTEMPTS = 3


class Cancelled(Exception):
    """A save was given up; the one before it stays."""


class SessionReport:
    """What was saved or restored.

    names: of the variables. reasons: why others were not, by name. notes: sentences about what is
    otherwise here. size: bytes; new: those of them that had to be written.
    """

    def __init__(self, names, reasons, notes=(), size=0, new=0, saved=0.0, source=None):
        self.names, self.reasons, self.notes = names, reasons, list(notes)
        self.size, self.new, self.saved, self.source = size, new, saved, source or {}


class KernelSession:
    """The sessions of one kernel.

    shell: IPython's. about: what a manifest says of the kernel's TPU.
    """

    def __init__(self, shell, about):
        self._shell, self._about = shell, about
        self._arrays = arrays.ArraySet()
        self._written = {}  # by storage and name: the keys and digests that are there
        self._known = {}  # by storage and name: the last save of this kernel, or what it restored

    def save(self, storage, name, *, overwrite=False):
        """Saves all variables; returns a `SessionReport`.

        overwrite: also in place of a session that this kernel has neither saved nor restored.
        """
        if overwrite:
            self.allow_replacing(storage, name)
        return self.begin(storage, name).finish()

    def check(self, storage, name):
        """Returns the manifest that a save would replace, and its generation.

        Raises `SessionError` if that is of another kernel: its variables would be lost.
        """
        manifest, generation = storage.manifest(name)
        if manifest and manifest["save"] != self._known.get((storage.url, name)):
            count = sum(len(group["names"]) for group in manifest["groups"])
            raise SessionError(
                "There is a session %s in %s, with %d variables that were saved at %s by another "
                "kernel. Restore it first, choose another NAME, or add --overwrite to replace it."
                % (name, storage.url, count, local_time(manifest["saved"]))
            )
        return manifest, generation

    def is_of_another_kernel(self, storage, name):
        """Whether another kernel has saved the session of this name."""
        manifest, _ = storage.manifest(name)
        return bool(manifest) and manifest["save"] != self._known.get((storage.url, name))

    def allow_replacing(self, storage, name):
        """The next save may replace the session that there is."""
        manifest, _ = storage.manifest(name)
        self._known[storage.url, name] = manifest and manifest["save"]

    def begin(self, storage, name):
        """Takes a snapshot; returns a `Save`, whose `finish` may run in another thread."""
        return Save(self, storage, name)

    def restore(self, storage, name, *, overwrite=False):
        """Puts the variables of a session into the namespace; returns a `SessionReport`."""
        manifest, _ = storage.manifest(name)
        if manifest is None:
            names = ", ".join(storage.list()) or "none"
            raise SessionError(
                "There is no session %s in %s. There are: %s." % (name, storage.url, names)
            )
        namespace = self._shell.user_ns
        present = [
            variable
            for group in manifest["groups"]
            for variable in group["names"]
            if variable in namespace and variable not in self._shell.user_ns_hidden
        ]
        if present and not overwrite:
            some = ", ".join(present[:5]) + (" and others" if len(present) > 5 else "")
            raise SessionError(
                "This kernel has variables of the same names: %s. To replace them, add --overwrite."
                % some
            )
        notes = _configure(manifest)
        devices = self._devices(manifest)
        groups, reasons = self._runnable(manifest)
        needed = {key: group["names"][0] for group in groups for key in group["arrays"]}
        target = storage.arrays(name)
        found, failed = arrays.read(sorted(needed), manifest["arrays"], target, devices, needed)
        values: "dict[str, object]" = {}
        taken: "set[str]" = set()
        for group in groups:
            try:
                values.update(self._load(storage, name, group, found, failed, taken, devices))
            except Exception as error:  # whatever the objects' own classes raise
                reasons.update(dict.fromkeys(group["names"], _why_not(error)))
        for variable in manifest["order"]:
            if variable in values and not _result_number(variable):
                namespace[variable] = values[variable]
        self._continue_history(manifest, values)
        for key, array in found.items():
            if manifest["arrays"][key]["kind"] == "jax":
                self._arrays.remember(key, manifest["arrays"][key], array)
        if not reasons:
            self._known[storage.url, name] = manifest["save"]
        self._written[storage.url, name] = {
            *found,
            *(group["digest"] for group in manifest["groups"]),
        }
        notes += devices.notes if devices is not None else ()
        if reasons:  # a save would delete them from the session
            notes.append(
                "The session keeps what was not restored: this kernel replaces it only by "
                "`%tpu session save --overwrite`, or after all of it was restored."
            )
        restored = [variable for variable in manifest["order"] if variable in values]
        return SessionReport(
            restored, {**manifest["reasons"], **reasons}, notes,
            saved=manifest["saved"], source=manifest["about"],
        )  # fmt: skip

    def _devices(self, manifest):
        if manifest["devices"] is None:
            return None
        try:
            import jax
        except ImportError:
            raise SessionError(
                "The session has arrays of JAX, which is not installed here: %pip install jax"
            ) from None
        return placement.Devices(jax, manifest["devices"])

    def _runnable(self, manifest):
        """The groups that this Python can run, and why others can't be."""
        if manifest["python"] == list(sys.version_info[:2]):
            return manifest["groups"], {}
        reason = "it contains code of Python %d.%d; run its cell again" % tuple(manifest["python"])
        groups = [group for group in manifest["groups"] if not group["has_code"]]
        others = [group for group in manifest["groups"] if group["has_code"]]
        return groups, {name: reason for group in others for name in group["names"]}

    def _load(self, storage, name, group, found, failed, taken, devices):
        for key in group["arrays"]:
            if key in failed:
                raise SessionError("an array could not be read: %s" % failed[key])
        data = storage.read_values(name, group["digest"])
        return pickling.load(data, self._shell.user_ns, found, taken, devices)

    def _continue_history(self, manifest, values):
        history = self._shell.history_manager
        saved = manifest["inputs"]
        if len(saved) <= self._shell.execution_count:
            return  # this kernel has a history of its own
        current = history.input_hist_parsed[-1:]
        history.input_hist_parsed[:] = saved + current
        history.input_hist_raw[:] = saved + current
        self._shell.execution_count = len(saved)
        for variable, value in values.items():
            number = _result_number(variable)
            if number:
                history.output_hist[number] = value


class Save:
    """One save: a snapshot of the variables, and what has to be written of it."""

    def __init__(self, session, storage, name):
        self._session, self._storage, self._name = session, storage, name
        self._cancelled = False
        self._groups, self._reasons = [], {}
        self._snapshot()

    @property
    def names(self):
        """The variables that are saved."""
        return [name for name in self._order if name not in self._reasons]

    def cancel(self):
        """`finish` raises `Cancelled` as soon as it can."""
        self._cancelled = True

    def _snapshot(self):
        shell = self._session._shell
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
        own = self._session._arrays
        own.stored = self._session._written.setdefault((self._storage.url, self._name), set())
        self._groups, self._reasons = pickling.dump(variables, shell.user_ns, own)

    def finish(self):
        """Writes what is new; the session is the new one when all of it is there.

        Raises `SessionError`, `Cancelled`, or what the storage raises. Then the session before
        this one is still there.
        """
        storage, name, own = self._storage, self._name, self._session._arrays
        before, generation = self._session.check(storage, name)
        there = self._session._written[storage.url, name]
        if before is None:
            there.clear()
        else:
            there &= {*before["arrays"], *(group["digest"] for group in before["groups"])}
        new = 0
        for attempt in range(ATTEMPTS):
            needed = sorted({key for group in self._groups for key in group.arrays})
            try:
                new += self._write_arrays([key for key in needed if key not in there], there)
                break
            except arrays.CannotKeep:
                if attempt == ATTEMPTS - 1:
                    raise SessionError(
                        "The variables change too quickly to be saved: arrays were donated."
                    ) from None
                self._snapshot()
        changed = [group for group in self._groups if group.digest not in there]
        storage.write_values(name, changed)
        new += sum(len(group.data) for group in changed)
        manifest = self._manifest({key: own.records[key] for key in needed})
        if self._cancelled:
            raise Cancelled
        storage.write_manifest(name, manifest, generation)
        self._session._known[storage.url, name] = manifest["save"]
        there.clear()
        there.update(needed, (group.digest for group in self._groups))
        own.keep_only(needed)
        storage.remove_unused(name, manifest)
        size = sum(record["bytes"] for record in manifest["arrays"].values())
        size += sum(len(group.data) for group in self._groups)
        return SessionReport(self.names, self._reasons, size=size, new=new, saved=manifest["saved"])

    def _write_arrays(self, keys, there):
        """Writes arrays, of which only so many bytes are on their way; returns the bytes."""
        own, target = self._session._arrays, self._storage.arrays(self._name)
        waiting: "list[tuple]" = []
        size = total = 0

        def finish_first():
            key, futures = waiting.pop(0)
            for future in futures:
                done(future, self._storage.url)
            there.add(key)
            return own.records[key]["bytes"]

        for key in keys:
            while waiting and size + own.records[key]["bytes"] > arrays.IN_FLIGHT_BYTES:
                size -= finish_first()
            if self._cancelled:
                raise Cancelled
            waiting.append((key, own.write(key, target)))
            size += own.records[key]["bytes"]
            total += own.records[key]["bytes"]
        while waiting:
            finish_first()
        return total

    def _manifest(self, records):
        jax = sys.modules.get("jax")
        # JAX is not started for this: its program may not have chosen its devices yet.
        started = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
        return {
            "save": secrets.token_hex(8),
            "saved": time.time(),
            "about": self._session._about,
            "python": list(sys.version_info[:2]),
            "jax": None if jax is None else jax.__version__,
            "devices": len(jax.devices()) if jax and started else None,
            "x64": None if jax is None else bool(jax.config.jax_enable_x64),
            "prng": None if jax is None else jax.config.jax_default_prng_impl,
            "order": self._order,
            "inputs": self._inputs,
            "reasons": self._reasons,
            "arrays": records,
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


def _configure(manifest):
    """Sets what JAX had set: what arrays mean depends on it."""
    if manifest["jax"] is None:
        return []
    try:
        import jax
    except ImportError:
        return []
    notes = []
    if manifest["jax"] != jax.__version__:
        notes.append(
            "The session is of JAX %s, and this is JAX %s." % (manifest["jax"], jax.__version__)
        )
    for option, field in (("jax_enable_x64", "x64"), ("jax_default_prng_impl", "prng")):
        if getattr(jax.config, option) != manifest[field]:
            jax.config.update(option, manifest[field])
            notes.append("%s is %s now, as in the session." % (option, manifest[field]))
    return notes


def _result_number(variable):
    match = re.fullmatch(r"Out\[(\d+)\]", variable)
    return int(match[1]) if match else 0


def _why_not(error):
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return "it needs the package %s: %%pip install %s" % (package, package)
    return " ".join(("%s: %s" % (type(error).__name__, error)).split())[:200]
