"""The fleet's REST interface on one screen: the server's handlers, the OpenAPI document and the
client are made from it.
"""

from __future__ import annotations

import sys
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal, cast, get_args, get_type_hints

from msgspec import Struct

from .api import FleetAPI
from .models import (
    CopyResult,
    HomeOutcome,
    ModelServer,
    Operation,
    Profile,
    SessionResult,
    ShareResult,
    SyncResult,
)

#: Where the interface is, under the server's base URL.
ROOT = "jupyter-tpu/v1"


class Route(Struct, frozen=True, kw_only=True):
    """One method on one path.

    call: the fleet's method, or a part's ("tunnels.open"). Its arguments are the path's parts,
    then the body (or *query*) if there is one. For other routes: their name.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    call: str
    about: str
    answer: Any = None  # None: 204, no content
    body: type[Struct] | None = None
    query: dict[str, str] = {}  # names and what they mean
    query_model: type[Struct] | None = None  # None: the fleet's method takes each as a text
    status: int = 200
    media: dict[str, str] = {}  # other types of content the answer may have, and when
    file: Literal["", "body", "answer"] = ""  # which of them is a file's content
    text: str = ""  # the answer's type of content, if it is text
    result: Any = None  # of the operation that is the answer, when that is done
    permission: tuple[str, str] | None = None  # a further one that is needed: action, resource
    more: str = ""  # a longer description for the document

    @property
    def is_list(self) -> bool:
        """Whether it reads what is the same for all who ask, and takes no time of its own."""
        return self.method == "GET" and "{" not in self.path and not self.file and not self.text


def route(line: str, call: str, about: str, answer: Any = None, **more: Any) -> Route:
    method, path = line.split()
    if answer is Operation and method != "GET" and "status" not in more:
        more["status"] = 202
    return Route(method=cast(Any, method), path=path, call=call, about=about, answer=answer, **more)


def _fleet(line: str, call: str, about: str, **more: Any) -> Route:
    """The route to one of the fleet's methods, whose types say what it takes and answers."""
    method = _method(call)
    annotations = method.__annotations__.items()
    hints = {name: _evaluated(text, method.__module__) for name, text in annotations}
    answer = hints.pop("return")
    kinds = [kind for hint in hints.values() for kind in (*get_args(hint), hint)]
    model = next((k for k in kinds if isinstance(k, type) and issubclass(k, Struct)), None)
    more["query_model" if line.startswith("GET") else "body"] = model
    return route(line, call, about, None if answer is type(None) else answer, **more)


@cache
def _evaluated(annotation: str, module: str) -> Any:
    """The type that is written so in a module. Most are written often, and each takes a while."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return get_type_hints(holder, vars(sys.modules[module]))["it"]


_PART_TYPES = get_type_hints(FleetAPI)


def _method(call: str) -> Any:
    """The method of `FleetAPI`, or of one of its parts, without an object."""
    part, _, name = call.rpartition(".")
    return getattr(_PART_TYPES[part] if part else FleetAPI, name)


_ENDS = {"end_kernels": "true: running kernels may be shut down"}
_ENDS_ALL = {**_ENDS, "end_jobs": "true: running jobs may be ended"}
_FRESH = {"fresh": "true: ask Google now; false: the answer of the last shared poll"}
_LOCAL_FILES = (
    "It reads and writes files of the server's user, as a kernel could, so permission to execute "
    "kernels is needed, too."
)
_USERS_SSH = (
    "It runs `ssh` as the server's user, with their configuration and keys, so permission to "
    "execute kernels is needed, too."
)

ROUTES = (
    _fleet("GET status", "status", "The health of this interface"),
    _fleet("GET catalog", "catalog", "Types, zones and versions",
           query={"zone": "only what this zone offers"}),
    _fleet("GET tpus", "tpus", "All TPUs", query=_FRESH),
    _fleet("POST tpus", "create", "Create a TPU"),
    _fleet("POST quotes", "quote", "What creating a TPU would make and cost; creates nothing"),
    _fleet("GET queued", "queued.list", "All queued resources", query=_FRESH),
    _fleet("POST queued", "queued.create", "Request TPUs that Google creates when it has capacity"),
    _fleet("GET queued/{queued}", "queued.get", "One queued resource"),
    _fleet("DELETE queued/{queued}", "queued.delete", "Delete a queued resource",
           query={"force": "true: with its TPUs"}),
    _fleet("POST queued/{queued}/reset", "queued.reset",
           "Put a failed or suspended queued resource back into the queue"),
    _fleet("GET hunts", "hunts.list", "Running and recent hunts"),
    _fleet("POST hunts", "hunts.start", "Search for a TPU over zones, types and tiers", status=201),
    _fleet("POST hunt-quotes", "hunts.quote", "What a hunt would try and cost; starts nothing"),
    _fleet("GET hunts/{hunt}", "hunts.get", "One hunt, with its last attempts"),
    _fleet("DELETE hunts/{hunt}", "hunts.stop", "Stop a hunt, and delete what it has begun"),
    _fleet("POST attached", "attached.attach",
           "Attach machines that you reach by SSH, as one TPU",
           status=201, permission=("execute", "kernels"), more=_USERS_SSH),
    _fleet("POST attach-checks", "attached.check",
           "Check what attaching machines would connect to; changes nothing",
           permission=("execute", "kernels"), more=_USERS_SSH),
    _fleet("DELETE attached/{tpu}", "attached.detach", "Forget an attached machine",
           query=_ENDS_ALL),
    _fleet("GET tpus/{tpu}", "tpu", "One TPU"),
    _fleet("DELETE tpus/{tpu}", "delete", "Delete a TPU", query=_ENDS_ALL),
    _fleet("GET tpus/{tpu}/consequences", "consequences",
           "What an act on a TPU would end and take away; changes nothing",
           query={
               "act": "delete, detach, disconnect, remove-environment, replace, report-fault or "
               "stop",
               "environment": "The environment to remove",
           }),
    _fleet("POST tpus/{tpu}/adopt", "usage.adopt", "Make a TPU yours: label it"),
    _fleet("POST tpus/{tpu}/start", "start", "Start a stopped TPU"),
    _fleet("POST tpus/{tpu}/stop", "stop", "Stop a TPU"),
    _fleet("POST tpus/{tpu}/report-fault", "report_fault",
           "Tell Google that a host's machine is broken (Compute Engine)"),
    _fleet("GET tpus/{tpu}/replacement", "hunts.replacement",
           "What replacing a TPU would create, lose and cost; changes nothing"),
    _fleet("POST tpus/{tpu}/replace", "hunts.replace",
           "Delete a TPU, and create the same one on other hardware", status=201),
    _fleet("POST tpus/{tpu}/connect", "connect", "Create an environment and its kernel"),
    _fleet("POST tpus/{tpu}/disconnect", "disconnect", "Remove its kernels from Jupyter"),
    _fleet("GET tpus/{tpu}/environments", "environments.list", "Its environments"),
    _fleet("DELETE tpus/{tpu}/environments/{environment}", "environments.remove",
           "Remove an environment", query=_ENDS),
    _fleet("GET tpus/{tpu}/environments/{environment}/packages", "environments.list_packages",
           "What is installed in it"),
    _fleet("GET tpus/{tpu}/environments/{environment}/lock", "environments.get_lock",
           "The exact versions in it"),
    _fleet("GET tpus/{tpu}/environments/{environment}/kernelspec", "environments.get_kernelspec",
           "The kernelspec by which a kernel is started in it"),
    _fleet("POST tpus/{tpu}/environments/{environment}/packages", "environments.change_packages",
           "Add and remove packages"),
    _fleet("POST tpus/{tpu}/environments/{environment}/sync", "environments.sync_packages",
           "Give all hosts the packages of host 0"),
    _fleet("POST tpus/{tpu}/environments/{environment}/warm", "environments.keep_warm",
           "Decide whether it has a warm kernel"),
    _fleet("POST tpus/{tpu}/doctor", "doctor.check", "Check what keeps JAX from its chips"),
    _fleet("GET log", "doctor.log", "What jupyter-tpu itself has done",
           query={"tail": "how many of the last lines", "search": "only lines with this text"}),
    _fleet("POST doctor", "doctor.preflight", "Check what keeps a TPU from being created"),
    _fleet("GET tpus/{tpu}/pythons", "pythons.list", "The Pythons found on its hosts",
           query={"path": "also the Python or virtual environment at this path"}),
    _fleet("GET tpus/{tpu}/kernels", "kernels.list", "The kernels that run there",
           query={"fresh": "true: ask its hosts now; false: what they last reported"}),
    _fleet("GET tpus/{tpu}/chips", "chips.list", "Its chips, and the processes that use them",
           query={"hosts": "numbers such as 0,2-5; default: all"}),
    _fleet("POST tpus/{tpu}/chips/free", "chips.free", "End processes that use its chips"),
    _fleet("POST tpus/{tpu}/chips/split", "chip_kernels.split",
           "Offer kernels that get some of its chips each"),
    _fleet("POST tpus/{tpu}/kernels/slices", "slice_kernels.add",
           "Offer a kernel on all hosts of this TPU and of others"),
    _fleet("GET tpus/{tpu}/metrics", "metrics.get", "Memory and load of its chips",
           query={"from": "the `next` of the last answer; 0: all; default: the latest sample",
                  "hosts": "numbers such as 0,2-5; default: all"}),
    _fleet("GET metrics", "metrics.list", "Memory and load of the chips of connected TPUs"),
    _fleet("GET tpus/{tpu}/guard", "guards.get", "When it stops or deletes itself"),
    _fleet("POST tpus/{tpu}/guard", "guards.set", "Let it stop or delete itself at a limit"),
    _fleet("POST tpus/{tpu}/guard/keep", "guards.keep", "Keep a TPU for some time"),
    _fleet("DELETE tpus/{tpu}/guard", "guards.remove", "Remove its guard"),
    _fleet("GET tpus/{tpu}/logging", "logs.show", "Whether Cloud Logging stores its logs"),
    _fleet("POST tpus/{tpu}/logging", "logs.set", "Let Cloud Logging store its logs, or not"),
    _fleet("DELETE tpus/{tpu}/kernels/{kernel}", "kernels.shut_down", "Shut down a kernel"),
    _fleet("POST tpus/{tpu}/kernels/{kernel}/take", "kernels.take_over",
           "Take over a kernel from its client"),
    _fleet("GET sessions", "sessions.all", "The saved variables of kernels that are known here"),
    _fleet("GET zones/{zone}/buckets", "sessions.buckets",
           "The project's buckets, those of the zone's region first; -: of no zone"),
    _fleet("GET tpus/{tpu}/sessions", "sessions.list",
           "The sessions that its kernels can restore",
           query={"fresh": "true: ask its host now; false: what it last reported"}),
    _fleet("POST tpus/{tpu}/sessions", "sessions.save", "Save the variables of its kernels",
           result=SessionResult),
    _fleet("POST tpus/{tpu}/sessions/setting", "sessions.set",
           "Choose where its kernels are saved, and when"),
    _fleet("DELETE tpus/{tpu}/sessions/setting", "sessions.remove",
           "Do not save its kernels any more; its sessions stay"),
    _fleet("POST tpus/{tpu}/sessions/{session}/restore", "sessions.restore",
           "Put a session into a kernel", result=SessionResult),
    _fleet("DELETE tpus/{tpu}/sessions/{session}", "sessions.forget", "Delete a session"),
    _fleet("POST tpus/{tpu}/kernels/{kernel}/restart", "sessions.restart",
           "Restart a kernel with its variables", result=SessionResult),
    _fleet("GET homes", "homes.all", "The home folders that are kept in buckets"),
    _fleet("POST tpus/{tpu}/home", "homes.set",
           "Choose which folders of its home are kept in a bucket"),
    _fleet("DELETE tpus/{tpu}/home", "homes.remove",
           "Do not save its home folders any more; the bucket keeps them"),
    _fleet("POST tpus/{tpu}/home/save", "homes.save", "Save its home folders now",
           result=HomeOutcome),
    _fleet("POST tpus/{tpu}/home/restore", "homes.restore", "Restore its home folders",
           result=HomeOutcome),
    _fleet("DELETE tpus/{tpu}/home/copy", "homes.forget",
           "Delete its home folders in the bucket"),
    _fleet("GET tpus/{tpu}/tunnels", "tunnels.list", "The tunnels to it"),
    _fleet("POST tpus/{tpu}/tunnels", "tunnels.open", "Open a tunnel", status=201),
    _fleet("DELETE tpus/{tpu}/tunnels/{tunnel}", "tunnels.close", "Close a tunnel"),
    _fleet("GET tunnels", "tunnels.all", "All tunnels"),
    _fleet("GET tpus/{tpu}/jobs", "jobs.list", "Its jobs"),
    _fleet("POST tpus/{tpu}/jobs", "jobs.start", "Start a job", status=201),
    _fleet("GET jobs", "jobs.all", "All jobs"),
    _fleet("GET tpus/{tpu}/jobs/{job}", "jobs.get", "One job, with its attempts"),
    _fleet("DELETE tpus/{tpu}/jobs/{job}", "jobs.remove", "Delete an ended job and its output"),
    _fleet("POST tpus/{tpu}/jobs/{job}/stop", "jobs.stop", "Stop a job"),
    _fleet("GET tpus/{tpu}/jobs/{job}/why", "jobs.why",
           "Where it is on each host: the Python stacks of its processes"),
    _fleet("GET tpus/{tpu}/jobs/{job}/log", "jobs.log", "A part of its output on one host",
           query={
               "host": "its number; default: the first one of the job",
               "from": "number of the first line; a negative one counts from the end",
               "limit": "most lines in the answer, up to 5000",
               "search": "only lines with this text",
               "wait": "seconds to wait for a line, up to 60",
               "attempt": "its number; default: the current one",
               "partial_out": "the incomplete last line that the client has; another one ends the "
                              "wait",
               "partial_err": "the same",
           }),
    _fleet("GET tpus/{tpu}/model-servers", "serving.list", "Its servers of models"),
    _fleet("POST tpus/{tpu}/model-servers", "serving.start", "Start a server of a model",
           result=ModelServer),
    _fleet("GET model-servers", "serving.all", "All servers of models"),
    _fleet("GET tpus/{tpu}/model-servers/{server}", "serving.get", "One server"),
    _fleet("POST tpus/{tpu}/model-servers/{server}/stop", "serving.stop",
           "Stop a server, and close its port here"),
    _fleet("GET tpus/{tpu}/ray", "ray.get", "Its Ray cluster"),
    _fleet("POST tpus/{tpu}/ray", "ray.start", "Start Ray on all its hosts"),
    _fleet("DELETE tpus/{tpu}/ray", "ray.stop", "Stop Ray, and what runs on it"),
    _fleet("POST tpus/{tpu}/ray/dashboard", "ray.open_dashboard", "Open Ray's dashboard",
           status=201),
    _fleet("POST tpus/{tpu}/apps", "apps.open", "Open a web app of a host", status=201),
    _fleet("GET apps", "apps.list", "The open web apps"),
    _fleet("POST apps/{app}/visits", "apps.visit", "A URL that opens an app once", status=201),
    _fleet("DELETE apps/{app}", "apps.close", "Close an app"),
    _fleet("POST tpus/{tpu}/tensorboard", "tensorboard.open", "Open TensorBoard for a folder"),
    _fleet("POST tpus/{tpu}/profiles", "profiles.start",
           "Trace its programs, on all hosts at once, and show that in TensorBoard",
           result=Profile),
    _fleet("GET tpus/{tpu}/memory", "profiles.memory",
           "What fills the memory of its devices, by the lines of programs",
           query={"hosts": "numbers such as 0,2-5; default: all",
                  "kernel": "the id of one; default: all"}),
    _fleet("GET tpus/{tpu}/runs", "runs.list", "The commands that run there"),
    _fleet("POST tpus/{tpu}/runs", "runs.start", "Run a command on hosts", status=201),
    _fleet("GET tpus/{tpu}/runs/{run}", "runs.get", "One run, host by host"),
    _fleet("GET tpus/{tpu}/runs/{run}/output", "runs.output",
           "What it has written; waits up to 20 seconds for more",
           query={"from": "the offset: the `next` of the last answer",
                  "wait": "seconds; at most, and by default, 20"}),
    _fleet("POST tpus/{tpu}/runs/{run}/input", "runs.write", "Write to its standard input"),
    _fleet("DELETE tpus/{tpu}/runs/{run}", "runs.stop", "Stop it on all hosts"),
    _fleet("POST tpus/{tpu}/sync", "sync.start", "Copy what has changed in a folder",
           result=SyncResult, permission=("execute", "kernels"), more=_LOCAL_FILES),
    _fleet("POST tpus/{tpu}/copies", "copies.start", "Copy files and folders to hosts or from one",
           result=CopyResult, permission=("execute", "kernels"), more=_LOCAL_FILES),
    _fleet("GET tpus/{tpu}/shares", "shares.list", "The folders that its hosts share"),
    _fleet("POST tpus/{tpu}/shares", "shares.start", "Share a folder of host 0, or end that",
           result=ShareResult,
           more="It changes hosts as root: files in /etc, services, and packages. With `dry_run` "
           "the result says exactly what."),
    _fleet("GET tokens", "tokens.list", "The tokens that TPUs get, and where each is found"),
    _fleet("POST tokens", "tokens.pass_on", "Pass tokens to what is started on TPUs",
           status=201),
    _fleet("DELETE tokens/{token}", "tokens.remove", "Stop passing a token"),
    _fleet("POST networks", "networks.set_up", "Create what is missing in a network for TPUs",
           more="With `dry_run` the answer says what, and nothing is changed."),
    _fleet("GET ssh-key", "ssh_key.show", "The SSH key for TPUs, and where it is known"),
    _fleet("POST ssh-key", "ssh_key.add", "Add it to the Google account or the project"),
    _fleet("DELETE ssh-key", "ssh_key.remove", "Remove it from the Google account and the project"),
    _fleet("GET grants", "grants.list", "Grants, and how many of their chips are in use"),
    _fleet("POST grants", "grants.add", "Add a grant", status=201),
    _fleet("DELETE grants/{grant}", "grants.remove", "Remove a grant"),
    _fleet("GET reservations", "reservations.list", "Reserved capacity, now and to come"),
    _fleet("POST reservation-quotes", "reservations.quote",
           "What a reservation would be and cost; reserves nothing"),
    _fleet("POST reservations", "reservations.create",
           "Reserve chips for some days (calendar mode)", status=201),
    _fleet("GET prices", "prices.list", "What chips cost, by region, with the dates of the prices"),
    _fleet("POST prices/refresh", "prices.refresh", "Read the prices from Google"),
    _fleet("GET budgets", "budgets.show", "Budgets, the ledger, and plans that wait for a yes"),
    _fleet("POST budgets", "budgets.set", "Set a budget", status=201),
    _fleet("DELETE budgets/{budget}", "budgets.remove", "Remove a budget"),
    _fleet("POST tpus/{tpu}/agents", "budgets.allow",
           "Let coding agents run commands on a TPU that a person has created, or no longer"),
    _fleet("POST plans", "plans.make", "What a TPU would cost at most; creates nothing",
           status=201),
    _fleet("GET plans/{plan}", "plans.get", "One plan"),
    _fleet("POST plans/{plan}/create", "plans.carry_out", "Create what was planned", status=202),
    _fleet("POST plans/{plan}/answer", "plans.answer",
           "Agree to a plan that is outside of its budget, or refuse it"),
    _fleet("GET usage", "usage.show", "All TPUs and queued resources, and whose they are",
           query={"projects": "IDs such as one,two; default: the server's"}),
    _fleet("GET operations", "operations.list", "Running and recent operations"),
    _fleet("GET operations/{operation}", "operations.get", "One operation, with its log"),
    _fleet("DELETE operations/{operation}", "operations.cancel", "Cancel an operation"),
    _fleet("POST operations/{operation}/stop-trying", "operations.stop_trying",
           "Stop trying to delete a TPU that Google refuses to delete"),
)  # fmt: skip


#: The routes by the method that they call.
BY_CALL = {route.call: route for route in ROUTES}
#: What stands before the dot of a call.
PARTS = {route.call.partition(".")[0] for route in ROUTES if "." in route.call}
