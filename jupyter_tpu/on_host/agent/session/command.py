"""``%tpu session`` in a kernel on a host."""

import contextlib
import os
from typing import Any

from .chosen import AutoStart, SessionOffer, file_time
from .times import local_time

FOLDER = os.path.join("~", ".jupyter-tpu", "sessions")
KEY_FILE = os.path.join("~", ".jupyter-tpu", "session.key")
USAGE = """\
%tpu session save [NAME] [--in PLACE] [--overwrite]     save the variables of this kernel
%tpu session restore [NAME] [--in PLACE] [--overwrite]  put them into this kernel
%tpu session list [--in PLACE]                          the sessions
%tpu session forget NAME [--in PLACE]                   delete a session
%tpu session auto [SECONDS|off] [--in PLACE]            save when no cell has run for SECONDS
NAME is the notebook's name if you give none. PLACE is gs://BUCKET/FOLDER, or a folder; if you give
none, what was chosen for the TPU, else a folder in the host's home folder."""
#: Seconds without a cell after which `auto` saves.
IDLE_SECONDS = 5.0
#: Variables that are named in one line.
MOST_NAMES = 12


class SessionCommand:
    """The command of the kernel whose IPython is *shell*.

    key: of the user, in hexadecimal digits, the same on all TPUs; "": this host's own.
    setting: what was chosen for the TPU; see `chosen_setting`.
    """

    def __init__(self, shell, key="", setting=None):
        self._shell = shell
        self._key = key
        self._session = None
        self._auto = self._start = None
        self._setting: "dict[str, Any] | None" = None
        #: Called with the bytes that are written or read, and all, while that goes on.
        self.moved = lambda done, total: None
        #: Called with what is said of each save; see `requested.saved_fields`.
        self.report = lambda fields: None
        #: In a pod kernel: has the conductor ask all hosts to "start" or "begin" between two cells.
        self.ask = lambda do: None
        self._running = False  # a cell
        if is_in_pod():
            shell.events.register("pre_run_cell", self._before_cell)
            shell.events.register("post_run_cell", self._after_cell)
        self._choose(setting)
        self._offered = self._offer()

    def __call__(self, words):
        """What the command prints; None for a misuse."""
        from .storage import SessionError

        try:
            arguments = _arguments(words)
            if arguments is None:
                return USAGE
            return arguments.pop("run")(self, **arguments)
        except SessionError as error:
            return str(error)
        except ModuleNotFoundError as error:
            if error.name not in ("tensorstore", "cloudpickle"):
                raise
            return (
                "Sessions need a package that is not installed here: %%pip install %s" % error.name
            )

    def _before_cell(self, info):
        self._running = True

    def _after_cell(self, result):
        self._running = False

    def save(self, name, place, overwrite):
        storage = self._storage(place)
        self.give_up_automatic()
        report = self.kernel_session().save(storage, name or own_name(), overwrite=overwrite)
        self.note_saved(storage, name or own_name(), report)
        self._start_automatic()
        return saved_text(report, name or own_name(), storage.url)

    def restore(self, name, place, overwrite):
        storage = self._storage(place)
        return restored_text(self.restore_from(storage, name or own_name(), overwrite=overwrite))

    def list(self, place):
        storage = self._storage(place)
        return self.kernel_session().by_first_host("list", lambda: _listed(storage))

    def forget(self, name, place):
        storage = self._storage(place)
        self.give_up_automatic()
        if self.kernel_session().forget(storage, name):
            return "Deleted the session %s from %s." % (name, storage.url)
        return "There is no session %s in %s." % (name, storage.url)

    def auto(self, seconds, place):
        from .auto import AutoSave

        if seconds is None:
            self._stop_automatic()
            if self._setting is not None:
                self._setting = {**self._setting, "automatic": False}
            return "The variables are saved only by %tpu session save."
        storage = self._storage(place)
        self.kernel_session().check_before_auto(storage, own_name())
        self._stop_automatic()
        self._auto = AutoSave(
            self._shell, self.kernel_session(), storage, own_name(), seconds, self.note_saved,
            (lambda: self.ask("begin")) if is_in_pod() else None,
        )  # fmt: skip
        return "The variables are saved as %s in %s when no cell has run for %g s." % (
            own_name(), storage.url, seconds,
        )  # fmt: skip

    def save_now(self, step):
        """Saves where the session is saved by itself, before the host is stopped.

        step: a name that all hosts of a pod kernel have got. While a cell runs on them, nothing is
        saved: each is somewhere else in it.
        """
        with self.together(step):
            self.kernel_session().check_between_cells(self._running)
            if self._auto is not None:
                self._auto.save_now()
            elif self.is_automatic:
                storage = self._storage("")
                report = self.kernel_session().save(storage, own_name(), kind="final")
                self.note_saved(storage, own_name(), report)

    @property
    def is_automatic(self):
        """Whether it is saved before the host is stopped."""
        return self._auto is not None or self._setting is not None

    def begin_automatic(self):
        """Saves in a thread, if it is saved automatically."""
        if self._auto is not None:
            self._auto.begin()

    def give_up_automatic(self):
        """Ends an automatic save that has begun: what follows would meet it."""
        if self._auto is not None:
            self._auto.give_up()

    def restore_from(self, storage, name, *, overwrite, whole=False):
        """Restores a session; returns the report. From then on it is saved, if that was chosen."""
        self.give_up_automatic()
        report = self.kernel_session().restore(storage, name, overwrite=overwrite, whole=whole)
        self._offered.withdraw()
        self._start_automatic()
        return report

    # ---- what was chosen for the TPU, and what the fleet asks for ----

    def requested(self, content, cancellable):
        """Carries out a request of the fleet; returns its outcome. See `requested`."""
        from .requested import carry_out

        with self.together(content["id"]):
            return carry_out(self, content, cancellable)

    @contextlib.contextmanager
    def together(self, step):
        """What all hosts of a pod kernel do inside is no part of a cell; all know its name."""
        from .storage import SessionError

        with contextlib.ExitStack() as stack:
            if is_in_pod():
                with contextlib.suppress(SessionError):  # who needs the session says it
                    stack.enter_context(self.kernel_session().at(step))
            yield

    def choose(self, setting):
        """From now on; None: nothing is saved automatically."""
        self._choose(setting)
        return self._start_automatic()

    def start_automatic(self):
        """On all hosts of a pod kernel, since host 0 has asked for it; returns why it can't."""
        start, problem = self._start, self._start_automatic()
        if start is not None:
            start.ended(problem)
        return problem

    def _choose(self, setting):
        self._setting = setting
        self._stop_automatic()
        if setting is None or not setting["automatic"]:
            return
        if not is_in_pod():
            self._start = AutoStart(self._shell, setting["seconds"], self._start_automatic)
        elif is_first_host():
            self._start = AutoStart(self._shell, setting["seconds"], lambda: self.ask("start"))

    def _stop_automatic(self):
        for task in filter(None, (self._auto, self._start)):
            task.stop()
        self._auto = self._start = None

    def _start_automatic(self):
        """If that was chosen. Returns why it can't begin now, "" if it does, or need not."""
        if self._setting is None or not self._setting["automatic"]:
            return ""
        if self._auto is not None:
            return ""
        try:
            self.auto(self._setting["seconds"], "")
            if self._auto is not None:
                self._auto.begin()
        except Exception as error:  # of the storage, and packages that are missing
            return " ".join(str(error).split())[:300]
        return ""

    def note_saved(self, storage, name, report):
        """Says that the session was saved; returns what is said."""
        from .requested import saved_fields

        fields = saved_fields(storage, name, report, self._about())
        if self.kernel_session().is_shared(storage):
            fields["hosts"] = 1
        if storage.is_bucket or storage.url == os.path.expanduser(FOLDER):
            self.report(fields)  # what is in another folder is not asked for from outside
        return fields

    def _offer(self):
        place = self._setting["place"] if self._setting is not None else ""

        def find():
            from .storage import manifest_path

            if not is_first_host():
                return None  # which says it
            if not place:
                return file_time(os.path.join(FOLDER, manifest_path(own_name())))
            manifest, _ = self._storage("").manifest(own_name())
            return None if manifest is None else manifest["saved"]

        if place and is_in_pod():  # its hosts would say it in different cells
            return SessionOffer(self._shell, lambda: None, slow=False)
        return SessionOffer(self._shell, find, slow=bool(place))

    def _about(self):
        names = {
            "tpu": "JUPYTER_TPU_NAME",
            "zone": "JUPYTER_TPU_ZONE",
            "type": "TPU_ACCELERATOR_TYPE",
        }
        about = {field: os.environ.get(name, "") for field, name in names.items()}
        return {**about, "emulated": os.environ.get("JUPYTER_TPU_EMULATED") == "1"}

    def kernel_session(self):
        if self._session is None:
            from .hosts import pod_hosts
            from .session import KernelSession

            hosts = pod_hosts() if is_in_pod() else None
            self._session = KernelSession(self._shell, self._about(), hosts)
            self._session.moved = lambda done, total: self.moved(done, total)
        return self._session

    def _storage(self, place):
        from .storage import SessionError, Storage, own_key

        if "://" in place and not place.startswith("gs://"):
            raise SessionError("%s is neither a folder nor gs://BUCKET/FOLDER." % place)
        key = bytes.fromhex(self._key) or own_key(os.path.expanduser(KEY_FILE))
        chosen = self._setting["place"] if self._setting is not None else ""
        place = place or chosen or FOLDER
        url = place if place.startswith("gs://") else os.path.expanduser(place)
        return Storage(url, key)

    def storage_in(self, place):
        """Where the fleet asks for. place: "": the host's disk; None: what was chosen."""
        return self._storage("" if place is None else place or FOLDER)


def _listed(storage):
    lines = [("NAME", "SAVED", "VARIABLES", "SIZE", "FROM")]
    for name in storage.list():
        try:
            manifest, _ = storage.manifest(name)
        except Exception as error:  # of one session: the others are shown
            lines.append((name, "-", "-", "-", str(error)))
            continue
        if manifest is not None:
            count = sum(len(group["names"]) for group in manifest["groups"])
            saved, source = local_time(manifest["saved"]), _source(manifest["about"])
            lines.append((name, saved, str(count), _size(manifest["bytes"]), source))
    if len(lines) == 1:
        return "There is no session in %s." % storage.url
    return _table(lines)


def is_in_pod():
    """Whether this is one of the kernels of a pod kernel."""
    return bool(os.environ.get("JUPYTER_TPU_POD"))


def is_first_host():
    """Whether this is host 0 of a pod kernel, or a kernel of one host."""
    return os.environ.get("JUPYTER_TPU_POD", "0") == "0"


def own_name():
    """The name of the notebook, without its ending."""
    path = os.environ.get("JPY_SESSION_NAME", "")
    return os.path.splitext(os.path.basename(path))[0] or "default"


def _arguments(words):
    """The method and its arguments; None for a misuse."""
    words, place = list(words), ""
    while "--in" in words:
        at = words.index("--in")
        if at + 1 == len(words):
            return None
        place = words[at + 1]
        del words[at : at + 2]
    overwrite = "--overwrite" in words
    if overwrite:
        words.remove("--overwrite")
    first, rest = (words[0] if words else "", words[1:])
    if len(rest) > 1 or (overwrite and first not in ("save", "restore")):
        return None
    name = rest[0] if rest else ""
    if name.startswith("-"):
        return None
    common: "dict[str, Any]" = {"place": place}
    if first == "save":
        return {"run": SessionCommand.save, "name": name, "overwrite": overwrite, **common}
    if first == "restore":
        return {"run": SessionCommand.restore, "name": name, "overwrite": overwrite, **common}
    if first == "list" and not name:
        return {"run": SessionCommand.list, **common}
    if first == "forget" and name:
        return {"run": SessionCommand.forget, "name": name, **common}
    if first == "auto":
        try:
            seconds = None if name == "off" else float(name or IDLE_SECONDS)
        except ValueError:
            return None
        return {"run": SessionCommand.auto, "seconds": seconds, **common}
    return None


def saved_text(report, name, url):
    of = " of %d hosts" % report.hosts if report.hosts > 1 else ""
    line = "Saved %s%s as %s in %s: %s, of which %s are new, in %.1f s." % (
        _count(report.names), of, name, url, _size(report.size), _size(report.new), report.seconds,
    )  # fmt: skip
    return "\n".join([line, *_missing("Not saved", report.reasons)])


def restored_text(report):
    names, source = report.names, _source(report.source)
    of = " of %d" % (len(names) + len(report.reasons)) if report.reasons else ""
    count = "%d%s variables" % (len(names), of) if of else _count(names)
    saved = "Restored %s, saved %s%s." % (
        count,
        local_time(report.saved),
        " on %s" % source if source else "",
    )
    return "\n".join([saved, *report.notes, *_missing("Not restored", report.reasons)])


def _missing(title, reasons):
    return ["%s: %s (%s)" % (title, name, reason) for name, reason in sorted(reasons.items())]


def _count(names):
    return "1 variable" if len(names) == 1 else "%d variables" % len(names)


def _source(about):
    kind = about.get("type", "")
    emulated = "emulated " if about.get("emulated") else ""
    detail = " (%s%s)" % (emulated, kind) if kind else ""
    return about.get("tpu", "") + detail if about.get("tpu") else ""


def _size(count):
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return "%d bytes" % count if unit == "bytes" else "%.1f %s" % (count, unit)
        count /= 1000
    return "%.1f GB" % count


def _table(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines
    )
