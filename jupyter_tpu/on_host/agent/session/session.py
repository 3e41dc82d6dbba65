"""The sessions of a kernel: restores them; how they are saved is in `save`."""

import contextlib
import json
import re
import secrets
import sys
import threading

from . import arrays, pickling, placement
from .hosts import OneHost, merged_reasons
from .save import Save, SessionReport
from .storage import SessionError
from .times import local_time


class KernelSession:
    """The sessions of one kernel.

    shell: IPython's. about: what a manifest says of the kernel's TPU. hosts: of a pod kernel.

    Attributes: *arrays*: an `ArraySet`. *written*: by place and name of a session, the keys and
    digests that are there. *known*: the same way, the last save of this kernel, or what it
    restored. *tidy*: those that have nothing that their manifest does not name.
    """

    def __init__(self, shell, about, hosts=None):
        self.shell, self.about, self.hosts = shell, about, hosts or OneHost()
        self.arrays = arrays.ArraySet(self.hosts)
        self.written: "dict[tuple[str, str], set[str]]" = {}
        self.known: "dict[tuple[str, str], str]" = {}
        self.tidy: "set[tuple[str, str]]" = set()
        #: Called with the bytes of this host that are written or read, and all, while that goes on.
        self.moved = lambda done, total: None
        self._shared: "dict[str, bool]" = {}  # by place
        self._cells = 0
        self._moments: "dict[str, int]" = {}
        self._step = threading.local()  # see `at`
        if self.hosts.count > 1:
            shell.events.register("pre_run_cell", self._before_cell)

    def _before_cell(self, info):
        self._cells += 1
        self._moments.clear()

    @contextlib.contextmanager
    def at(self, step):
        """What this thread does inside is no part of a cell: all hosts were given its name."""
        before = vars(self._step).copy()
        self._step.name, self._step.moments = step, {}
        try:
            yield
        finally:
            vars(self._step).clear()
            vars(self._step).update(before)

    def moment(self, kind):
        """A name of what all hosts do now, which is the same on all of them: they have run the
        same number of cells, or do what they were asked for; see `at`."""
        step = getattr(self._step, "name", None)
        moments = self._moments if step is None else self._step.moments
        number = moments[kind] = moments.get(kind, 0) + 1
        return "%s.%s.%d" % (kind, self._cells if step is None else step, number)

    def check_between_cells(self, running):
        """Raises `SessionError` on all hosts if one of them runs a cell: each may be somewhere else
        in it. running: whether this one does.
        """

        def check():
            if running:
                raise SessionError("a cell runs on the hosts, so the session before it stays")

        if self.hosts.count > 1:
            self.hosts.agree(self.moment("free"), check, lambda _: None, first=True)

    def prepare(self, storage):
        """What all hosts have to know of each other; in a cell that all of them run."""
        if self.hosts.count > 1 and not self.arrays.kernel:
            self.arrays.kernel = self.by_first_host("kernel", lambda: secrets.token_hex(8))
        self.is_shared(storage)

    def is_shared(self, storage):
        """Whether all hosts have the same sessions there: a bucket, or a disk of all of them."""
        if self.hosts.count == 1 or storage.is_bucket:
            return True
        if storage.url not in self._shared:
            step = self.moment("place")
            mark = self.by_first_host("mark", storage.leave_mark)
            try:
                seen = self.hosts.agree(step, lambda: storage.has_mark(mark), sum)
            finally:
                if self.hosts.index == 0:
                    storage.remove_mark(mark)
            if seen not in (1, self.hosts.count):
                raise SessionError(
                    "%s is shared by some of the hosts only. Use a folder that all hosts share, "
                    "or gs://BUCKET/FOLDER." % storage.url
                )
            self._shared[storage.url] = seen > 1
        return self._shared[storage.url]

    def save(self, storage, name, *, overwrite=False, kind="cell"):
        """Saves all variables; returns a `SessionReport`.

        overwrite: also in place of a session that this kernel has neither saved nor restored.
        """
        self.prepare(storage)
        if overwrite and self.hosts.index == 0:
            self.allow_replacing(storage, name)
        return self.begin(storage, name, kind).finish()

    def check(self, storage, name):
        """Returns the manifest that a save would replace, and its generation.

        Raises `SessionError` if that is of another kernel: its variables would be lost.
        """
        manifest, generation = storage.manifest(name)
        if manifest and manifest["save"] != self.known.get((storage.url, name)):
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
        return bool(manifest) and manifest["save"] != self.known.get((storage.url, name))

    def allow_replacing(self, storage, name):
        """The next save may replace the session that there is."""
        manifest, _ = storage.manifest(name)
        self.known[storage.url, name] = manifest and manifest["save"]

    def check_before_auto(self, storage, name):
        """As `check`, on all hosts."""
        self.prepare(storage)
        self.by_first_host("check", lambda: self.check(storage, name) and None)

    def by_first_host(self, kind, do):
        """What *do* returns on host 0, JSON, on all hosts."""
        return self.hosts.agree(self.moment(kind), lambda: None, lambda _: do(), first=True)

    def begin(self, storage, name, kind="auto"):
        """Takes a snapshot; returns a `Save`, whose `finish` may run in another thread."""
        return Save(self, storage, name, kind)

    def forget(self, storage, name):
        """Removes a session; False if there is none of this name."""
        self.prepare(storage)
        found = self.by_first_host("forget", lambda: storage.forget(name))
        if self.hosts.index and not self.is_shared(storage):
            storage.remove_unused(name, set())
        for place in self.written, self.known:
            place.pop((storage.url, name), None)
        self.tidy.discard((storage.url, name))
        return found

    def restore(self, storage, name, *, overwrite=False, whole=False):
        """Puts the variables of a session into the namespace; returns a `SessionReport`.

        whole: each host has here what all hosts have saved.
        """
        hosts, step = self.hosts, self.moment("restore")
        self.prepare(storage)
        manifest = hosts.agree(
            step, lambda: None, lambda _: self._found(storage, name, whole), first=True
        )
        own = manifest["parts"][hosts.index] if len(manifest["parts"]) == hosts.count else None
        # A host's failure is every host's, before anything is changed.
        present = hosts.agree(
            step + ".read", lambda: self._present(self._part(storage, name, manifest, own)),
            lambda names: sorted({name for of_host in names for name in of_host}),
        )  # fmt: skip
        if present and not overwrite:
            some = ", ".join(present[:5]) + (" and others" if len(present) > 5 else "")
            raise SessionError(
                "This kernel has variables of the same names: %s. To replace them, add --overwrite."
                % some
            )
        notes = _configure(manifest)
        if len(manifest["parts"]) != hosts.count and any(manifest["parts"]):
            notes.append(
                "The session was saved on %d hosts. Variables that differed between them have the "
                "values of host 0 here." % len(manifest["parts"])
            )
        devices = self._devices(manifest)
        groups, reasons = self._runnable(manifest)
        needed = {key: group["names"][0] for group in groups for key in group["arrays"]}
        target = storage.arrays(name)
        records = manifest["arrays"]
        found, failed = arrays.read(sorted(needed), records, target, devices, needed, self.moved)
        values: "dict[str, object]" = {}
        taken: "set[str]" = set()
        missing: "set[str]" = set()
        for group in groups:
            try:
                values.update(self._load(storage, name, group, found, failed, taken, devices))
            except Exception as error:  # whatever the objects' own classes raise
                reason = _why_not(error, manifest.get("packages", {}), missing)
                reasons.update(dict.fromkeys(group["names"], reason))
        if missing:
            notes.append(
                "Packages are missing. Install them, and restore again: %%pip install %s"
                % " ".join(sorted(missing))
            )
        notes += devices.notes if devices is not None else ()
        if reasons:  # a save would delete them from the session
            notes.append(
                "The session keeps what was not restored: this kernel replaces it only by "
                "`%tpu session save --overwrite`, or after all of it was restored."
            )
        outcome = hosts.agree(
            step + ".loaded",
            lambda: {
                "names": [variable for variable in manifest["order"] if variable in values],
                "kept": manifest["reasons"], "lost": reasons, "notes": notes,
            },
            _merged,
        )  # fmt: skip
        for variable in manifest["order"]:
            if variable in outcome["reasons"]:  # on no host, if not on all
                values.pop(variable, None)
            elif variable in values and not _result_number(variable):
                self.shell.user_ns[variable] = values[variable]
        self._continue_history(manifest, values)
        for key, array in found.items():
            self.arrays.restored(key, manifest["arrays"][key], array)
        if outcome["complete"]:
            self.known[storage.url, name] = manifest["save"]
        self.written[storage.url, name] = {
            *found,
            *(group["digest"] for group in manifest["groups"]),
        }
        return SessionReport(
            outcome["names"], outcome["reasons"], outcome["notes"],
            saved=manifest["saved"], source=manifest["about"], hosts=hosts.count,
        )  # fmt: skip

    def _found(self, storage, name, whole):
        """On host 0: the manifest, if this kernel can read its session."""
        manifest, _ = storage.manifest(name)
        if manifest is None:
            names = ", ".join(storage.list()) or "none"
            raise SessionError(
                "There is no session %s in %s. There are: %s." % (name, storage.url, names)
            )
        manifest.setdefault("parts", [None])
        count = len(manifest["parts"])
        if not (whole or manifest.get("shared", True)) and count != self.hosts.count:
            raise SessionError(
                "The session %s is on the disks of %d hosts: only a kernel on all of them can "
                "restore it. To use it elsewhere, save it with --in gs://BUCKET/FOLDER."
                % (name, count)
            )
        return manifest

    def _part(self, storage, name, manifest, digest):
        """Takes over into *manifest* what it says of this host in a file of its own."""
        if digest is not None:
            manifest.update(json.loads(storage.read_values(name, digest)))
        return manifest

    def _present(self, manifest):
        """The variables that would be replaced."""
        return [
            variable
            for group in manifest["groups"]
            for variable in group["names"]
            if variable in self.shell.user_ns and variable not in self.shell.user_ns_hidden
        ]

    def _devices(self, manifest):
        if manifest["devices"] is None:
            return None
        try:
            import jax
        except ImportError:
            raise SessionError(
                "The session has arrays of JAX, which is not installed here: %pip install jax"
            ) from None
        return placement.Devices(
            jax, manifest["devices"], manifest.get("local_devices") or manifest["devices"]
        )

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
        return pickling.load(data, self.shell.user_ns, found, taken, devices)

    def _continue_history(self, manifest, values):
        history = self.shell.history_manager
        saved = manifest["inputs"]
        if len(saved) <= self.shell.execution_count:
            return  # this kernel has a history of its own
        current = history.input_hist_parsed[-1:]
        history.input_hist_parsed[:] = saved + current
        history.input_hist_raw[:] = saved + current
        self.shell.execution_count = len(saved)
        for variable, value in values.items():
            number = _result_number(variable)
            if number:
                history.output_hist[number] = value


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
            "The session is of JAX %s, and this is JAX %s: random numbers and rounding may differ."
            % (manifest["jax"], jax.__version__)
        )
    for option, field in (("jax_enable_x64", "x64"), ("jax_default_prng_impl", "prng")):
        if getattr(jax.config, option) != manifest[field]:
            jax.config.update(option, manifest[field])
            notes.append("%s is %s now, as in the session." % (option, manifest[field]))
    return notes


def _merged(outcomes):
    """What all hosts have restored, of what each has."""
    reasons = merged_reasons([{**of["kept"], **of["lost"]} for of in outcomes])
    return {
        "names": [name for name in outcomes[0]["names"] if name not in reasons],
        "reasons": reasons,
        "notes": list(dict.fromkeys(note for of in outcomes for note in of["notes"])),
        "complete": not any(of["lost"] for of in outcomes),
    }


def _result_number(variable):
    match = re.fullmatch(r"Out\[(\d+)\]", variable)
    return int(match[1]) if match else 0


def _why_not(error, packages, missing):
    """Why a variable is not restored. Adds the package that it needs to *missing*."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        module = error.name.partition(".")[0]
        missing.add(packages.get(module, module))
        return "it needs the package %s" % packages.get(module, module)
    return " ".join(("%s: %s" % (type(error).__name__, error)).split())[:200]
