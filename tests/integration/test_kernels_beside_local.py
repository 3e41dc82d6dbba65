"""What a user does, done with a kernel on this machine and with one on a host: the same comes back.

Both are driven by an unmodified jupyter_client and run in the same Python. No SSH here: what is
tried are relay, keeper and agent (see `local_host.py`).
"""

import base64
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from debugging import Debugger
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, local_host, printed
from waiting import until

Story = Callable[[Notebook], Any]


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Notebook, Notebook]]:
    with local_host("beside") as (_, make):
        managers = [KernelManager(kernel_name="python3"), make()]
        for manager in managers:
            # As Voilà passes the parameters of a page.
            manager.start_kernel(env={**os.environ, "QUERY_STRING": "model=big"})
        local, ours = (Notebook(manager) for manager in managers)
        yield local, ours
        for notebook in (local, ours):
            notebook.close()
            notebook.manager.shutdown_kernel()


@pytest.fixture
def compare(both: tuple[Notebook, Notebook]) -> Callable[[Story], Any]:
    """Lets a story happen with each of the two; gives what came of both, which is the same."""

    def run(story: Story) -> Any:
        told = []
        for notebook in both:
            while notebook.client.iopub_channel.msg_ready():
                notebook.client.get_iopub_msg(timeout=1)
            told.append(story(notebook))
        local, ours = told
        assert ours == local
        return ours

    return run


def shown(messages: list[dict]) -> list[tuple]:
    """The essence of iopub messages, without ids, times and what differs by chance."""
    essence: list[tuple] = []
    for message in messages:
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            if essence and essence[-1][:2] == (kind, content["name"]):
                content = {**content, "text": essence.pop()[2] + content["text"]}
            essence.append((kind, content["name"], content["text"]))
        elif kind in ("display_data", "update_display_data", "execute_result"):
            essence.append((kind, sorted(content["data"]), content["data"].get("text/plain")))
        elif kind == "error":
            essence.append((kind, content["ename"], content["evalue"]))
        elif kind == "status":
            essence.append((kind, content["execution_state"]))
        elif kind == "clear_output":
            essence.append((kind, content["wait"]))
        else:
            essence.append((kind,))
    return essence


@pytest.mark.parametrize(
    "code",
    [
        "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr)",
        "from IPython.display import *\nh = display(HTML('a'), display_id=1)\nh.update(HTML(''))",
        "from IPython.display import clear_output\nprint(1, flush=True); clear_output(wait=True)",
        "import os; _ = os.system('echo from a process')", "!echo from a shell; exit 3",
        "%%bash\necho from bash; echo to stderr >&2",
        "import subprocess; subprocess.run(['echo', 'from a child']).returncode",
        "def f(): return g()\nf()", "1 +", "?len", "%timeit?",
        "print('\\x1b[31mred\\x1b[0m', 'é 🙂')", "raise SystemExit('enough')",
    ],
)  # fmt: skip
def test_a_cell_shows_the_same(compare, code):
    def story(notebook: Notebook) -> Any:
        content, seen = notebook.run(code)
        # A process may say its last words a moment after the cell's end.
        payload = [page["source"] for page in content.get("payload", ())]
        return content["status"], content.get("ename"), payload, shown(seen)

    *_, seen = compare(story)
    assert (seen[0], seen[-1]) == (("status", "busy"), ("status", "idle"))


def test_a_variable_that_a_client_adds_reaches_the_kernel(compare):
    def story(notebook: Notebook) -> Any:
        return notebook.text("import os; print(os.environ['QUERY_STRING'])")

    assert compare(story) == "model=big\n"


def test_a_password_is_asked_for_as_one(compare):
    asked = []

    def story(notebook: Notebook) -> Any:
        def answer(message: dict) -> None:
            asked.append((message["content"]["prompt"], message["content"]["password"]))
            notebook.client.input("secret")

        code = "from getpass import getpass\nprint(getpass('word? ')[::-1])"
        return notebook.text(code, allow_stdin=True, stdin_hook=answer)

    assert compare(story) == "terces\n"
    assert asked == [("word? ", True)] * 2


def test_an_interrupt_ends_a_question(compare):
    def story(notebook: Notebook) -> Any:
        request = notebook.client.execute("input('who? ')", allow_stdin=True)
        assert notebook.client.get_stdin_msg(timeout=60)["content"]["prompt"] == "who? "
        notebook.manager.interrupt_kernel()
        reply = notebook.client.get_shell_msg(timeout=60)
        notebook.until_idle(request)
        return reply["content"]["ename"], notebook.text("print('goes on')")

    assert compare(story) == ("KeyboardInterrupt", "goes on\n")


def test_a_question_where_nobody_can_answer_is_an_error(compare):
    def story(notebook: Notebook) -> Any:
        return notebook.run("input()", allow_stdin=False)[0]["ename"]

    assert compare(story) == "StdinNotImplementedError"


def test_an_interrupt_gets_through_while_output_floods(compare):
    def story(notebook: Notebook) -> Any:
        request = notebook.client.execute("while True: print('x' * 1000)")
        notebook.until_output(request, "xxx")
        notebook.manager.interrupt_kernel()
        reply = notebook.client.get_shell_msg(timeout=60)
        notebook.until_idle(request)
        return reply["content"]["ename"], notebook.text("print('goes on')")

    assert compare(story) == ("KeyboardInterrupt", "goes on\n")


def test_a_plot_is_shown_in_the_notebook(compare):
    pytest.importorskip("matplotlib")

    def story(notebook: Notebook) -> Any:
        _, seen = notebook.run(
            "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); plt.show()",
            timeout=120,
        )
        [display] = [m["content"] for m in seen if m["msg_type"] == "display_data"]
        picture = base64.b64decode(display["data"]["image/png"])
        return picture[:8], shown(seen), notebook.text("print(plt.get_backend())")

    assert compare(story)[0] == b"\x89PNG\r\n\x1a\n"


def ask(notebook: Notebook, kind: str, channel: str, subshell: str | None, **content: Any) -> dict:
    client = notebook.client
    message = client.session.msg(kind, content)
    if subshell:
        message["header"]["subshell_id"] = subshell
    getattr(client, f"{channel}_channel").send(message)
    reply = getattr(client, f"get_{channel}_msg")(timeout=120)
    assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"]
    return reply["content"]


@pytest.mark.parametrize("way", ["shell", "control"])
def test_completion_and_inspection_are_answered_while_a_cell_runs(compare, way):
    """On control, and on a subshell as JupyterLab has it; the shell itself waits, here as there."""

    def story(notebook: Notebook) -> Any:
        client = notebook.client
        notebook.run("a_long_name = 3")
        subshell = None
        if way == "shell":
            subshell = ask(notebook, "create_subshell_request", "control", None)["subshell_id"]
        busy = client.execute("import time\nprint('begun')\ntime.sleep(600)")
        notebook.until_output(busy, "begun")
        code = {"code": "a_long_n", "cursor_pos": 8}
        completed = ask(notebook, "complete_request", way, subshell, **code)
        code = {"code": "a_long_name", "cursor_pos": 5, "detail_level": 0}
        inspected = ask(notebook, "inspect_request", way, subshell, **code)
        notebook.manager.interrupt_kernel()
        ended = client.get_shell_msg(timeout=60)["content"]["ename"]
        notebook.until_idle(busy)
        if subshell:
            ask(notebook, "delete_subshell_request", "control", None, subshell_id=subshell)
        return completed["matches"], inspected["found"], ended

    assert compare(story) == (["a_long_name"], True, "KeyboardInterrupt")


def test_a_kernels_usage_is_reported_while_a_cell_runs(compare):
    def story(notebook: Notebook) -> Any:
        busy = notebook.client.execute("import time\nprint('begun')\ntime.sleep(600)")
        notebook.until_output(busy, "begun")
        usage = ask(notebook, "usage_request", "control", None)
        notebook.manager.interrupt_kernel()
        notebook.client.get_shell_msg(timeout=60)
        notebook.until_idle(busy)
        return usage["kernel_memory"] > 0, usage["pid"] > 0

    assert compare(story) == (True, True)


def test_a_breakpoint_is_hit_and_shows_the_variables_there(compare):
    code = "def double(number):\n    twice = 2 * number\n    return twice\nprint(double(21))"

    def story(notebook: Notebook) -> Any:
        debugger = Debugger(notebook)
        assert debugger.ask("debugInfo")["isStarted"] is False
        debugger.begin()
        assert debugger.break_at(code, line=3)
        assert debugger.ask("debugInfo")["isStarted"] is True
        request = notebook.client.execute(code)
        event = debugger.stopped()
        line, variables = debugger.local_variables(event["threadId"])
        debugger.ask("continue", threadId=event["threadId"])
        seen = notebook.until_output(request, "42\n")
        assert notebook.client.get_shell_msg(timeout=60)["content"]["status"] == "ok"
        notebook.until_idle(request)
        debugger.ask("disconnect", restart=False, terminateDebuggee=False)
        return event["reason"], line, variables["number"], variables["twice"], printed(seen)

    assert compare(story) == ("breakpoint", 3, "21", "42", "42\n")


def test_a_kernel_that_ends_itself_is_dead_and_can_be_started_again(compare):
    def story(notebook: Notebook) -> Any:
        notebook.client.execute("import os; os._exit(3)")
        until(lambda: not notebook.manager.is_alive())
        notebook.manager.restart_kernel()
        notebook.client.wait_for_ready(timeout=60)
        return notebook.text("print('anew')")

    assert compare(story) == "anew\n"
