"""The tools. Each answers within seconds: what takes longer is an operation, run, cell or job with
an id, whose state and output are asked for.
"""

from __future__ import annotations

import shlex
from typing import Any, Literal

from ..errors import InvalidInput
from .connection import connection, on_core
from .results import LONGEST_OUTPUT_CHARACTERS, clean, output, plain, tool

#: Seconds that a tool waits for output at most.
OUTPUT_SECONDS = 10.0

_TPU = (
    *("name", "zone", "type", "meaning", "state", "tier", "connection", "created", "emulated"),
    "agents_may_use",
)
_OPERATION = ("id", "kind", "tpu", "zone", "state", "message", "progress", "problem", "result")
_PLAN = (
    *("id", "name", "type", "zone", "tier", "meaning", "hunt", "emulated", "usd_per_hour", "most"),
    *("guard", "state", "outside", "operation", "expires"),
)
_kernels: Any = None


@tool("read-only")
async def tpu_list() -> dict[str, Any]:
    """List the TPUs of the project, with their states."""
    from ..fleet.models import ListQuery

    listed = await connection.call("tpus", ListQuery(fresh=True))
    if listed.problem is not None and not listed.tpus:
        raise listed.problem.to_error()
    tpus: dict[str, Any] = {"tpus": [plain(tpu, *_TPU) for tpu in listed.tpus]}
    if listed.problem is not None:
        tpus["incomplete"] = str(listed.problem.to_error())
    return tpus


@tool("read-only")
async def tpu_describe(name: str) -> dict[str, Any]:
    """Show one TPU: its hosts, environments, guard, cost and problems. name: NAME or zone~NAME."""
    tpu = await connection.call("tpu", name)
    shown = plain(tpu, *_TPU, "guard", "cost", "problem", "advice", "hosts", "operations")
    keys = ("name", "state", "python", "jax", "devices", "platform", "problem")
    return {
        **shown,
        "environments": [plain(environment, *keys) for environment in tpu.environments],
    }


@tool("read-only")
async def tpu_budget() -> dict[str, Any]:
    """Show what coding agents may spend, have spent, and which plans wait for a person's yes."""
    overview = await connection.call("budgets.show")
    return {
        "emulated": overview.emulated,
        "budgets": [plain(budget) for budget in overview.budgets if budget.budget.who == "agent"],
        "spending": [plain(spend) for spend in overview.spending[:20] if spend.who == "agent"],
        "questions": [plain(question, *_PLAN) for question in overview.questions],
    }


@tool("read-only")
async def tpu_plan(
    name: str,
    type: str,
    zone: str = "",
    spot: bool = False,
    minutes: float = 60,
    max_cost: float | None = None,
    max_price: float | None = None,
    connect: bool = True,
) -> dict[str, Any]:
    """Plan a TPU: what it would cost at most. Nothing is created. The first of two steps.

    zone: one zone; several with commas, or "-" for all zones that offer the type: then carrying it
    out is a hunt, which tries them in turn until there is capacity. minutes, max_cost (USD): the
    TPU is deleted at these limits. max_price: USD an hour, needed if the price is not known.
    connect: also create a Python environment with JAX. outside: why a person would be asked.
    """
    from ..fleet.models import ConnectTPU, CreateTPU, PlanTPU

    several = "," in zone or zone == "-"
    tpu = CreateTPU(
        name=name,
        type=type,
        zone=None if several else zone or None,
        tier="spot" if spot else "on-demand",
        max_price=max_price,
        connect=ConnectTPU() if connect else None,
    )
    request = PlanTPU(
        tpu=tpu, zones=zone.split(",") if several else [], time=minutes * 60, max_cost=max_cost
    )
    return plain(await connection.call("plans.make", request), *_PLAN)


@tool("costs money")
async def tpu_create(plan: str) -> dict[str, Any]:
    """Create what was planned (tpu_plan), inside the budget. plan: its id.

    Outside of the budget, a person is asked: try again when they have agreed. Answers at once;
    follow the operation with tpu_operation.
    """
    return plain(await connection.call("plans.carry_out", plan), *_PLAN)


@tool("costs money")
async def tpu_hunt(plan: str) -> dict[str, Any]:
    """Hunt for what was planned with several zones: tries them until there is capacity.

    As tpu_create. The state of the hunt: tpu_operation. To stop it: tpu_cancel.
    """
    return plain(await connection.call("plans.carry_out", plan), *_PLAN)


@tool("read-only")
async def tpu_operations() -> dict[str, Any]:
    """List running and recent operations: creating, connecting, copying, deleting …"""
    operations = await connection.call("operations.list")
    return {"operations": [plain(operation, *_OPERATION) for operation in operations[:20]]}


@tool("read-only")
async def tpu_operation(id: str, line: int = 0) -> dict[str, Any]:
    """Show the state of an operation, and its log from a line on. Read on from `next`."""
    operation = await connection.call("operations.get", id)
    log, following = _page(operation.log, line)
    return output(log, **plain(operation, *_OPERATION), next=following)


@tool("destructive")
async def tpu_cancel(id: str) -> dict[str, Any]:
    """Cancel an operation or hunt that an agent has begun. What it has created is deleted."""
    return plain(await connection.call("operations.cancel", id), *_OPERATION)


@tool("changes")
async def tpu_connect(name: str, packages: list[str] | None = None) -> dict[str, Any]:
    """Create a Python environment with JAX, and more packages, on a TPU. Answers an operation."""
    from ..fleet.models import ConnectTPU

    operation = await connection.call("connect", name, ConnectTPU(packages=packages or []))
    return plain(operation, *_OPERATION)


@tool("changes")
async def tpu_run(
    name: str, command: str, cwd: str = "", hosts: str = "all", timeout: float = 600
) -> dict[str, Any]:
    """Run a shell command on hosts of a TPU. Answers a run; read its output with tpu_run_output.

    cwd: relative to the home folder. hosts: all, 0, or 0,2-5. timeout: seconds.
    """
    from ..fleet.models import StartRun

    request = StartRun(
        command=["sh", "-c", command], hosts=hosts, cwd=cwd, timeout=timeout, stop_unwatched=900.0
    )
    run = await connection.call("runs.start", name, request)
    return {"run": run.id, "state": run.state}


@tool("read-only")
async def tpu_run_output(name: str, run: str, cursor: int = 0, wait: float = 5) -> dict[str, Any]:
    """Read what a run has written, from a cursor on. Read on from `next` until `ended`.

    wait: seconds to wait for more, at most 10.
    """
    seconds = str(min(max(wait, 0.0), OUTPUT_SECONDS))
    answer = await connection.call("runs.output", name, run, str(cursor), seconds)
    several = len(answer.run.hosts) > 1
    text = ""
    for part in answer.output:
        label = f"[{part.host}] " if several else ""
        text += label + part.data.decode("utf-8", "replace")
    text = clean(text)
    dropped = max(0, len(text) - LONGEST_OUTPUT_CHARACTERS)
    more: dict[str, Any] = {"ended": answer.ended, "next": answer.next, "state": answer.run.state}
    if answer.run.code is not None:
        more["exit_code"] = answer.run.code
    if dropped:
        more["cut"] = f"The first {dropped} characters were left out."
    return output(text[dropped:], **more)


@tool("changes")
async def tpu_execute(name: str, code: str, environment: str = "default") -> dict[str, Any]:
    """Execute Python code in a kernel on a TPU, which keeps its variables from cell to cell.

    Answers the id of the cell; read its output with tpu_output. The TPU has to be connected.
    """
    # For each cell: a person may have changed what agents are allowed.
    spec = await connection.call("environments.get_kernelspec", name, environment)
    ref = f"{spec.zone}~{spec.tpu}"
    kernels = await on_core(_own_kernels())
    return {"cell": await on_core(kernels.execute(ref, spec.kernelspec, code)), "tpu": ref}


@tool("read-only")
async def tpu_output(cell: str, line: int = 0, wait: float = 5) -> dict[str, Any]:
    """Read the output of a cell from a line on. Read on from `next` until its state is not running.

    wait: seconds to wait for the line, at most 10.
    """
    kernels = await on_core(_own_kernels())
    chunk = await on_core(kernels.read(cell, line, min(max(wait, 0.0), OUTPUT_SECONDS)))
    start = max(line, chunk.first)
    text, following = _page(chunk.lines, start - chunk.first)
    return output(text, state=chunk.state, line=start, next=following + chunk.first)


@tool("destructive")
async def tpu_interrupt(name: str) -> dict[str, Any]:
    """Interrupt the cell that runs in your kernel on a TPU, as Ctrl-C does."""
    tpu = await connection.call("tpu", name)
    kernels = await on_core(_own_kernels())
    await on_core(kernels.interrupt(f"{tpu.zone}~{tpu.name}"))
    return {"interrupted": tpu.name}


@tool("changes")
async def tpu_job_start(name: str, command: str, cwd: str = "", title: str = "") -> dict[str, Any]:
    """Start a shell command as a job: it continues whatever happens to this computer."""
    from ..fleet.models import StartJob

    words = shlex.split(command, comments=False)[:1] or [""]
    request = StartJob(command=["sh", "-c", command], cwd=cwd, name=title or words[0][:80])
    job = await connection.call("jobs.start", name, request)
    return plain(job, "id", "name", "state", "tpu", "zone")


@tool("read-only")
async def tpu_job_log(
    name: str, job: str, line: int = 1, host: int | None = None, wait: float = 0
) -> dict[str, Any]:
    """Read the log of a job on one host from a line on; a negative line counts from the end."""
    from ..fleet.models import JobLogQuery

    query = JobLogQuery(host=host, start=line, limit=400, wait=min(max(wait, 0.0), OUTPUT_SECONDS))
    log = await connection.call("jobs.log", name, job, query)
    state = (await connection.call("jobs.get", name, job)).state
    text, count = _page([log_line.text for log_line in log.lines], 0)
    following = log.next if count == len(log.lines) else log.lines[count].number
    return output(text, state=state, next=following, complete=log.complete)


@tool("read-only")
async def tpu_job_why(name: str, job: str) -> dict[str, Any]:
    """Show where a job is on each host, for example because it hangs: lines of its program."""
    where = await connection.call("jobs.why", name, job)
    return output("\n".join(where.explanation), attempt=where.attempt)


@tool("destructive")
async def tpu_job_stop(name: str, job: str) -> dict[str, Any]:
    """Stop a job on a TPU that an agent has created."""
    stopped = await connection.call("jobs.stop", name, job)
    return plain(stopped, "id", "name", "state")


@tool("read-only")
async def tpu_servers() -> dict[str, Any]:
    """List the servers of models on TPUs: states, local URLs, requests and tokens a second."""
    servers = await connection.call("serving.all")
    names = ("id", "tpu", "zone", "name", "state", "url", "requests", "tokens", "waiting")
    return {"servers": [plain(server, *names) for server in servers]}


@tool("changes")
async def tpu_copy(
    name: str, sources: list[str], destination: str = "", download: bool = False
) -> dict[str, Any]:
    """Copy files to all hosts of a TPU, or from host 0 (download). Answers an operation.

    Paths on this computer have to be in the folder for agents: that in which Jupyter runs, or one
    that a person has chosen. Hidden files, credentials and, to a TPU, what .gitignore leaves out
    are not copied. Existing files are replaced.
    """
    from ..fleet.models import CopyFiles

    request = CopyFiles(
        sources=sources,
        destination=destination,
        download=download,
        hosts="0" if download else "all",
        overwrite=True,
        make_folder=True,
    )
    return plain(await connection.call("copies.start", name, request), *_OPERATION)


@tool("read-only")
async def tpu_doctor(name: str = "") -> dict[str, Any]:
    """Find out what keeps JAX from the chips of a TPU, or, without a name, a TPU from being made.

    With a name it takes as long as JAX takes to start.
    """
    call = ("doctor.check", name) if name else ("doctor.preflight",)
    diagnosis = plain(await connection.call(*call))
    return output(_lines(diagnosis), checked=name or "setup")


@tool("read-only")
async def tpu_top(name: str) -> dict[str, Any]:
    """Show memory and load of the chips of a TPU, and the processes that use them."""
    load = plain(await connection.call("metrics.get", name))
    chips = plain(await connection.call("chips.list", name))
    return output(_lines({"load": load, "chips": chips}))


@tool("read-only")
async def tpu_memory(name: str) -> dict[str, Any]:
    """Show what fills the memory of the devices, by lines of programs."""
    return output(_lines(plain(await connection.call("profiles.memory", name))))


@tool("changes")
async def tpu_compile_check(
    code: str, function: str, arguments: list[dict[str, Any]], type: str = ""
) -> dict[str, Any]:
    """Check whether a JAX function fits a TPU type: compile it without a TPU, at no cost.

    Runs the code on this computer, as in a notebook, within limits of time and memory. arguments:
    [{"shape": [8, 128], "dtype": "float32"}, …]. type: "" tries types from the cheapest on.
    Answers a cell: read its report with tpu_output.
    """
    from ..jaxkit.compile.compiler import compile_code
    from ..jaxkit.compile.models import CompileRequest

    fields = {"code": code, "function": function, "arguments": arguments, "type": type or None}
    request = _compilable(fields, CompileRequest)
    kernels = await on_core(_own_kernels())
    return {"cell": await on_core(kernels.compile(lambda: compile_code(request)))}


@tool("changes")
async def tpu_compare_types(
    code: str,
    function: str,
    arguments: list[dict[str, Any]],
    types: list[str],
    axes: list[str] | None = None,
    spot: bool = False,
    minutes: float = 10,
) -> dict[str, Any]:
    """Compare TPU types for a training step: time, bound, memory and price of a step, at no cost.

    Compiles the code for each type on this computer, as tpu_compile_check. types: types, such as
    v6e-8, or generations, such as v5e. axes: of data, fsdp, tensor: their meshes are compared, too;
    the last argument is the batch. minutes: for all together; then the table is partial. Answers a
    cell: read the table with tpu_output. The times are estimates; their order is what counts.
    """
    from ..jaxkit.compile.models import PlanRequest
    from ..jaxkit.compile.planner import plan_code, planning_of

    fields = {
        "code": code,
        "function": function,
        "arguments": arguments,
        "types": types,
        "axes": axes,
        "tier": "spot" if spot else "on-demand",
        "seconds": minutes * 60,
    }
    request = _compilable(fields, PlanRequest)
    planning_of(request)
    kernels = await on_core(_own_kernels())
    return {"cell": await on_core(kernels.compile(lambda: plan_code(request)))}


def _compilable(fields: dict[str, Any], kind: Any) -> Any:
    """A request of that *kind*; raises `InvalidInput` where the fields are none."""
    import msgspec

    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"This can't be compiled: {error}.") from None


@tool("changes")
async def tpu_profile(name: str, seconds: float = 3) -> dict[str, Any]:
    """Trace the programs of a TPU. Answers an operation, whose result is the summary."""
    from ..fleet.models import ProfileTPU

    operation = await connection.call("profiles.start", name, ProfileTPU(seconds=seconds))
    return plain(operation, *_OPERATION)


@tool("destructive")
async def tpu_stop(name: str) -> dict[str, Any]:
    """Stop a TPU that an agent has created, with all that runs there. Its disk is kept."""
    from ..fleet.models import StopTPU

    options = StopTPU(end_kernels=True, end_jobs=True)
    return await _ended(name, "stop", options)


@tool("destructive")
async def tpu_delete(name: str) -> dict[str, Any]:
    """Delete a TPU that an agent has created, with its disk and all that runs there."""
    from ..fleet.models import DeleteTPU

    options = DeleteTPU(end_kernels=True, end_jobs=True)
    return await _ended(name, "delete", options)


async def _ended(name: str, act: Literal["delete", "stop"], options: Any) -> dict[str, Any]:
    """Does it; the operation, with what that ends and takes away."""
    from ..fleet.models import ConsequencesQuery

    consequences = await connection.call("consequences", name, ConsequencesQuery(act=act))
    operation = plain(await connection.call(act, name, options), *_OPERATION)
    return {**operation, "lost": consequences.sentences()}


async def _own_kernels() -> Any:
    """On the core's thread, to whose loop they belong."""
    global _kernels
    if _kernels is None:
        from .kernels import AgentKernels

        _kernels = AgentKernels()
    return _kernels


async def close_kernels() -> None:
    """Ends the kernels of this process."""
    if _kernels is not None:
        await on_core(_kernels.close())


def _page(lines: list[str], start: int) -> tuple[str, int]:
    """Lines from *start* on, as many as one answer has, and the number of the next one."""
    if start < 0:
        raise InvalidInput("The line must be 0 or more.")
    size, end = 0, start
    while end < len(lines) and (size := size + len(lines[end]) + 1) <= LONGEST_OUTPUT_CHARACTERS:
        end += 1
    if end == start and end < len(lines):  # one line that is too long
        return lines[end][:LONGEST_OUTPUT_CHARACTERS], end + 1
    return "\n".join(lines[start:end]), end


def _lines(value: Any) -> str:
    """A model as text: hosts have written parts of it."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=1)
    return (
        text
        if len(text) <= LONGEST_OUTPUT_CHARACTERS
        else f"{text[:LONGEST_OUTPUT_CHARACTERS]}\n… (cut)"
    )


def tools() -> list[str]:
    """For the entry point `jupyter_server_mcp.tools`."""
    from .results import TOOLS

    return [f"{__name__}:{name}" for name in TOOLS]
