"""A local notebook that runs cells on a TPU: a real local kernel, a real one on an emulated host.

The TPU is made by ``jupyter tpu create``, through a running server.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli_shell import LIMIT, Shell, Terminal, running_server, state_of
from jupyter_client.manager import KernelManager
from waiting import until

NAME = "magics"
PREPARE = 240.0  # seconds: the first environment of all downloads JAX


@pytest.fixture(scope="module")
def shell(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell beside a running server."""
    shell = Shell(tmp_path_factory.mktemp("magics"), **emulator.environment)
    with running_server(shell):
        yield shell


@pytest.fixture(scope="module")
def connected_tpu(shell: Shell, emulator: Any) -> Iterator[list[str]]:
    """A connected TPU; what the command that made it printed."""
    words = ["create", NAME, "--type", "v5litepod-4", "--zone", "us-central1-a", "--connect"]
    yield shell.out(*words, limit=PREPARE).splitlines()
    if state_of(emulator, NAME):
        shell.out("delete", NAME, "--yes")


class Notebook:
    """A local kernel, used as a notebook's page does."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=LIMIT)
        assert self.run("%load_ext jupyter_tpu") == []

    def run(self, code: str, *, answer: str | None = None, at: Any = None) -> list[dict[str, Any]]:
        """The outputs of a cell; *answer* to its input(), *at* is called at each output."""
        outputs: list[dict[str, Any]] = []

        def output(message: dict[str, Any]) -> None:
            if message["msg_type"] not in ("status", "execute_input"):
                kept = {**message["content"], "type": message["msg_type"]}
                outputs.append(kept)
                if at is not None:
                    at(kept)

        def stdin(message: dict[str, Any]) -> None:
            self.prompt = message["content"]
            self.client.input(answer)

        self.reply = self.client.execute_interactive(
            code,
            output_hook=output,
            stdin_hook=stdin,
            allow_stdin=answer is not None,
            timeout=LIMIT,
        )["content"]
        return outputs

    def interrupted(self, code: str) -> list[dict[str, Any]]:
        """The outputs of a cell that is interrupted at its first one."""
        once = iter([self.manager.interrupt_kernel])
        return self.run(code, at=lambda _output: next(once, lambda: None)())

    def text(self, code: str, **how: Any) -> str:
        """What a cell prints."""
        outputs = self.run(code, **how)
        assert self.reply["status"] == "ok", outputs
        return "".join(output["text"] for output in outputs if output["type"] == "stream")

    def complaint(self, code: str) -> str:
        """The one line with which a cell fails."""
        (error,) = self.run(code)
        assert error["type"] == "error"
        assert self.reply["status"] == "error"
        assert error["traceback"] == [error["evalue"]]
        return error["evalue"]

    def close(self) -> None:
        """Ends the kernel as *Shut down kernel* does."""
        self.manager.shutdown_kernel()
        self.client.stop_channels()
        self.manager.cleanup_resources()


@pytest.fixture(scope="module")
def notebook(shell: Shell, connected_tpu: list[str]) -> Iterator[Notebook]:
    notebook = Notebook({**shell.environment, "JPY_SESSION_NAME": "my.ipynb"})
    yield notebook
    notebook.close()


def running(shell: Shell) -> list[dict[str, Any]]:
    """The kernels that run on the TPU."""
    return shell.json("api", "GET", f"tpus/{NAME}/kernels?fresh=true")


def test_one_command_makes_a_tpu_with_a_kernel(shell, connected_tpu):
    assert "is in every kernel picker" in connected_tpu[-1]
    assert any("Install JAX" in line for line in connected_tpu)
    (spec,) = shell.json("kernel", "list", "--json")
    assert re.fullmatch(rf"Python 3\.\d+ · {NAME} \(emulated\)", spec["display_name"])
    text = shell.out("describe", NAME)
    assert re.search(r"connection +connected", text)
    assert spec["display_name"] in text


def test_a_removed_kernel_is_added_again_without_creating_the_environment_again(
    shell, connected_tpu
):
    assert "from the kernel pickers" in shell.out("kernel", "remove", NAME)
    assert shell.json("kernel", "list", "--json") == []
    assert "is in every kernel picker" in shell.out("kernel", "add", NAME)
    assert len(shell.json("kernel", "list", "--json")) == 1
    assert f"{NAME} has no environment other" in shell.complaint(
        "kernel", "add", NAME, "--env", "other"
    )


#: From now on no kernel seems to answer after its start.
SILENT = """
import asyncio
from jupyter_client.asynchronous import AsyncKernelClient as Client
answering = Client.wait_for_ready
async def silent(self, timeout=None): await asyncio.Event().wait()
Client.wait_for_ready = silent
"""


def test_an_interrupted_connect_is_one_sentence_and_leaves_no_kernel_on_the_host(shell, notebook):
    notebook.run(SILENT)
    with ThreadPoolExecutor(1) as thread:
        connecting = thread.submit(notebook.complaint, f"%tpu connect {NAME}")
        until(lambda: running(shell))
        notebook.manager.interrupt_kernel()
        complaint = connecting.result(LIMIT)
    assert complaint == f"Interrupted: this notebook has no kernel on {NAME}."
    assert running(shell) == []
    assert "has no kernel on a TPU" in notebook.text("%tpu status")
    notebook.run("Client.wait_for_ready = answering")


def test_connect_in_a_notebook_starts_its_kernel_on_the_host(notebook):
    output = notebook.text(f"%tpu connect {NAME}")
    assert re.search(
        rf"Python 3\.\d+ · {NAME} \(emulated\): cells that begin with %%tpu now run", output
    )
    assert NAME in notebook.text("%tpu list")
    assert re.search(rf"{NAME} +default .*running", notebook.text("%tpu status"))


def test_a_cell_runs_on_the_host_with_its_devices_and_keeps_its_variables(notebook):
    outputs = notebook.run("%%tpu\nimport jax, platform\nprint(platform.node())\njax.devices()")
    assert re.match(r"t1v-n-[0-9a-z]{8}-w-0\n", outputs[0]["text"])
    assert outputs[1]["data"]["text/plain"].count("CpuDevice(id=") == 4
    assert notebook.text(f"%%tpu {NAME}\nprint(jax.device_count())") == "4\n"
    assert notebook.text("print('jax' in dir())") == "False\n"  # here it is not


def test_memory_and_load_of_the_chips_are_those_of_the_cells_there(shell, notebook):
    """jax.live_arrays() and processor time, served as libtpu does, up to every face."""
    code = "import jax, jax.numpy as jnp\n"
    code += "big = jax.device_put(jnp.zeros((64, 2**20), jnp.uint8), jax.devices()[2])"
    notebook.text(f"%%tpu {NAME}\n{code}")

    line = re.compile(r"^ +0 +2 +\S* +0\.1 / 16\.0 GiB +0 % .* \d+ %", re.MULTILINE)

    def shown() -> bool:
        text = re.sub(r"\x1b\[[\d;]*m", "", notebook.text(f"%tpu top {NAME}"))
        return line.search(text) is not None

    until(shown)
    [load] = shell.json("top", NAME, "--json")
    [host] = load["hosts"]
    assert (load["tpu"], load["emulated"], host["chips"]) == (NAME, True, 4)
    used = [chip["memory_used"] for chip in host["samples"][-1]["chips"]]
    assert [size // 2**20 for size in used] == [0, 0, 64, 0]
    scraped = shell.out("api", "GET", "metrics/prometheus")
    labels = f'tpu="{NAME}",zone="us-central1-a",emulated="true",host="0"'
    assert f'tpu_hbm_total_bytes{{{labels},chip="3"}} 17179869184\n' in scraped
    assert f"tpu_host_in_use{{{labels}}} 1\n" in scraped
    terminal = Terminal(shell, "top")
    terminal.expect(f"{NAME}.*v5litepod-4")
    terminal.expect("emulated: processor time and arrays of JAX")
    terminal.expect("DUTY CYCLE")
    terminal.type("\x03")
    assert terminal.end() == 0


#: Names arrays in each way, and then runs until it is told to end, with one that only it knows.
HOLDS = """
import pathlib, jax, jax.numpy as jnp, time
def mib(count, device=0):
    return jax.device_put(jnp.zeros((count, 2**20), jnp.uint8), jax.devices()[device])
class Model: pass
model = Model()
model.params = {"dense": [mib(8)]}
def step(batch):
    hidden = mib(16, 1)
    raise ArithmeticError("no")
def train(carry):
    print(pathlib.Path.cwd(), flush=True)
    while not pathlib.Path("end").exists(): time.sleep(0.01)
"""


def test_arrays_are_named_while_a_cell_runs_and_what_nobody_needs_is_freed(notebook, emulator):
    notebook.text(f"%%tpu {NAME}\n{HOLDS}")
    notebook.run("%%tpu\nmib(4, 2)")
    notebook.run("%%tpu\nstep(1)")
    assert notebook.reply["ename"] == "ArithmeticError"
    notebook.run("%%tpu --no-wait --out running\ntrain(mib(3))")
    folder = notebook.text(
        "import time\nwhile '\\n' not in running.output: time.sleep(0.01)\nprint(running.output)"
    )
    text = notebook.text("%tpu memory")
    for line in (
        r"model\.params\['dense'\]\[0\] +8×1048576 +uint8 +8\.0 MiB +0",
        r"carry in train\(\) +3×1048576 +uint8 +3\.0 MiB +0",
        r"hidden in step\(\) +16×1048576 +uint8 +16\.0 MiB +1",
        r"Out\[\d+\] +4×1048576 +uint8 +4\.0 MiB +2",
        r"Only Out\[\] holds [\d.]+ MiB and only the last error holds 16\.0 MiB\. "
        r"This line frees it: %tpu memory --free",
    ):
        assert re.search(f"^{line}$", text, re.MULTILINE), (line, text)
    text = notebook.text("%tpu memory --free")
    assert "model.params['dense'][0]" in text
    assert "carry in train()" in text
    assert not re.search(r"16×1048576|\n\S* +4×1048576|Only", text), text
    [host] = emulator.hosts(NAME)
    Path(host["folder"] + folder.strip(), "end").touch()
    notebook.run("running.result()")


def test_displays_are_shown_and_updated_in_place(notebook):
    shown, updated, cleared = notebook.run(
        "%%tpu\nfrom IPython.display import HTML, clear_output, display\n"
        "h = display(HTML('<b>1</b>'), display_id='bar')\nh.update(HTML('<b>2</b>'))\n"
        "clear_output(wait=True)"
    )
    assert (shown["type"], shown["data"]["text/html"]) == ("display_data", "<b>1</b>")
    assert (updated["type"], updated["data"]["text/html"]) == ("update_display_data", "<b>2</b>")
    assert updated["transient"] == shown["transient"] == {"display_id": "bar"}
    assert (cleared["type"], cleared["wait"]) == ("clear_output", True)


def test_an_error_there_fails_the_cell_here_with_its_traceback(notebook):
    *_, error = notebook.run("%%tpu\nprint('before')\n1 / 0")
    assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert notebook.reply["status"] == "error"  # so that "Run All" stops
    traceback = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error["traceback"]))
    assert "1 / 0" in traceback
    assert "jupyter_tpu" not in traceback


def test_input_is_asked_here_and_answered_there(notebook):
    assert notebook.text("%%tpu\nx = input('how many? '); print(x * 2)", answer="42") == "4242\n"
    assert notebook.prompt["prompt"] == "how many? "
    secret = "%%tpu\nimport getpass\nprint(len(getpass.getpass('key: ')))"
    assert notebook.text(secret, answer="abc") == "3\n"
    assert notebook.prompt["password"] is True
    *_, error = notebook.run("%%tpu\ninput()")  # as nbclient does: nobody answers
    assert error["ename"] == "StdinNotImplementedError"


def test_interrupting_the_notebook_interrupts_the_cell_there(notebook):
    *_, error = notebook.interrupted(
        "%%tpu\nkept = 7\nprint('going', flush=True)\nimport time; time.sleep(600)"
    )
    assert error["ename"] == "KeyboardInterrupt"
    assert notebook.text("%%tpu\nprint(kept)") == "7\n"


def test_a_command_runs_on_the_hosts_and_an_interrupt_stops_it(notebook):
    assert notebook.text("%tpu run -- sh -c 'echo meow; echo $VIRTUAL_ENV'").startswith("meow\n/")
    *_, error = notebook.run("%tpu run false")
    assert "[0] exit code 1" in error["evalue"]
    *_, error = notebook.interrupted("%tpu run -- sh -c 'echo going; sleep 600'")
    assert "[0] stopped (killed by SIGINT)" in error["evalue"]


def test_a_job_is_started_read_and_stopped_in_a_notebook(notebook):
    assert "%tpu job start my-tpu" in notebook.text("%tpu job start --help")

    def start(words: str) -> str:
        return notebook.text(f"%tpu job start {NAME} {words}")

    started = start("--name sum -- sh -c 'echo $((20+22)); exit 3'")
    id = re.findall("Started job ([0-9a-f]{8})", started)[0]
    assert f"%tpu job logs {NAME} {id} --follow" in started
    assert notebook.text(f"%tpu job logs {NAME} {id} --follow") == "42\n"
    until(lambda: re.search(rf"{id} .*sum.*failed.* 3 ", notebook.text(f"%tpu job list {NAME}")))
    assert "Deleted" in notebook.text(f"%tpu job delete {NAME} {id} --yes")
    long = re.findall("Started job ([0-9a-f]{8})", start("-- sleep 1000"))[0]
    assert long in notebook.text(f"%tpu job stop {NAME} {long} --patience 0 --yes")
    followed = notebook.text(f"%tpu job logs {NAME} {long} --follow")  # ends with the job
    assert followed == ""
    until(lambda: "stopped" in notebook.text(f"%tpu job list {NAME}"))
    assert "has no job" in notebook.complaint(f"%tpu job logs {NAME} none")
    notebook.run(f"%tpu job delete {NAME} {long} --yes")


def test_comms_of_widgets_go_both_ways(notebook):
    opened, sent = notebook.run(
        "%%tpu\nfrom comm import create_comm\nheard = []\n"
        "c = create_comm(target_name='jupyter.widget', data={'a': 1})\n"
        "c.on_msg(lambda m: (heard.append(m['content']['data']), c.send({'thanks': True})))\n"
        "c.send({'b': 2})"
    )
    assert (opened["type"], opened["data"]) == ("comm_open", {"a": 1})
    assert (sent["comm_id"], sent["data"]) == (opened["comm_id"], {"b": 2})
    client = notebook.client
    said = {"comm_id": opened["comm_id"], "data": {"clicked": 3}}
    client.shell_channel.send(client.session.msg("comm_msg", said))
    while (message := client.get_iopub_msg(timeout=LIMIT))["msg_type"] != "comm_msg":
        pass
    assert message["content"] == {"comm_id": opened["comm_id"], "data": {"thanks": True}}
    assert notebook.text("%%tpu\nprint(heard)") == "[{'clicked': 3}]\n"


def test_the_value_of_a_cell_is_the_notebooks_own_result(notebook):
    (result,) = notebook.run("%%tpu\n40 + 2")
    number = result["execution_count"]
    assert (result["type"], result["data"]) == ("execute_result", {"text/plain": "42"})
    assert notebook.text(f"print(_ + 1, Out[{number}] is _{number})") == "43 True\n"
    (result,) = notebook.run("%%tpu\nimport jax\njax.numpy.arange(3, dtype='bfloat16')")
    assert result["data"]["text/plain"] == "Array([0, 1, 2], dtype=bfloat16)"
    assert notebook.text("print(type(_).__name__, _.dtype)") == "ndarray bfloat16\n"
    # What is large, or of another class, stays there.
    notebook.run("%%tpu\njax.devices()[0]")
    assert notebook.text("print(type(_).__name__, _)").startswith("RemoteValue CpuDevice(")
    notebook.run("%%tpu\njax.numpy.ones(10**6)")
    assert notebook.text("print(type(_).__name__, int(_.pull().sum()))") == "RemoteValue 1000000\n"
    before = notebook.text("print(_)")
    assert notebook.run("%%tpu\nx = 1") == []
    assert notebook.text("print(_)") == before
    assert notebook.text("%%capture kept\n%%tpu\n7") == ""
    assert notebook.text("print(kept.outputs[0].data)") == "{'text/plain': '7'}\n"


def test_the_value_of_a_cell_is_copied_to_a_variable(notebook):
    notebook.run("%%tpu --out total\nimport jax\njax.numpy.ones((1000, 1000), 'bfloat16')")
    assert notebook.text("print(total.shape, total.dtype, total.nbytes)") == (
        "(1000, 1000) bfloat16 2000000\n"
    )
    *_, error = notebook.run("%%tpu --out total\ny = 1")
    assert error["evalue"] == "The cell's last line has no value, so total was not set."


def test_variables_are_pushed_and_pulled(notebook):
    notebook.run("import numpy as np\nimport ml_dtypes")
    notebook.run(
        "params = {'w': np.arange(6.0, dtype=ml_dtypes.bfloat16).reshape(2, 3), 'n': (1, 'a')}\n"
        "def double(x): return 2 * x\n"
        "big = np.arange(4_000_000)"
    )
    assert notebook.text("%tpu push params").startswith("Pushed params to magics: ")
    shown = notebook.run("%tpu push big")
    assert "<progress" in shown[0]["data"]["text/html"]
    assert "Pushing big: 32.0 MB of 32.0 MB" in shown[-2]["data"]["text/html"]
    assert re.match(r"Pushed big to magics: 32\.0 MB in .* MB/s", shown[-1]["text"])
    assert notebook.text("%%tpu\nprint(params['w'].dtype, params['n'], big.sum())") == (
        "bfloat16 (1, 'a') 7999998000000\n"
    )
    notebook.run("%%tpu\nparams['w'] = jax.numpy.asarray(params['w']) * 2; big += 1")
    notebook.run("%tpu pull params big")
    assert notebook.text("print(type(params['w']).__name__, params['w'].sum(), big.sum())") == (
        "ndarray 30 8000002000000\n"
    )
    notebook.run("import jax")  # then its arrays come as such
    notebook.run("%tpu pull params")
    assert notebook.text("print(isinstance(params['w'], jax.Array), params['w'].dtype)") == (
        "True bfloat16\n"
    )


def test_a_synced_module_is_reloaded_there_and_its_results_come_back(notebook, tmp_path):
    (tmp_path / "lessons.py").write_text("def answer():\n    return 41\n")
    synced = notebook.text(f"%tpu sync {tmp_path} --to project")
    assert "Copied 1 file (28 bytes) to 1 host" in synced
    lines = (
        "%%tpu",
        "%load_ext autoreload",
        "%autoreload 2",
        "import sys; sys.path.insert(0, 'project')",
        "import lessons",
        "print(lessons.answer())",
    )
    assert notebook.text("\n".join(lines)) == "41\n"
    (tmp_path / "lessons.py").write_text("def answer():\n    return 42 + 0\n")
    notebook.run(f"%tpu sync {tmp_path} --to project")
    assert (
        notebook.text(
            "%%tpu\nprint(lessons.answer(), file=open('project/result.txt', 'w'), flush=True)\n"
            "print('written')"
        )
        == "written\n"
    )
    notebook.run(f"%tpu sync {tmp_path} --to project --pull")
    assert (tmp_path / "result.txt").read_text() == "42\n"


def test_files_are_copied_there_and_back(notebook, tmp_path):
    sent, back = tmp_path / "my data", tmp_path / "back"
    sent.mkdir()
    (sent / "it's.txt").write_text("first")
    there = f"%tpu copy '{sent}' magics:"
    assert "Copied 1 file, 5 bytes to magics:/home/" in notebook.text(there)
    (sent / "it's.txt").write_text("second")
    for code, problem in (
        (there, "Overwrite it"),
        ("%tpu copy /no-such magics:", "/no-such does not exist on this computer."),
        ("%tpu copy 'magics:../no such' .", "../no such does not exist on magics"),
        ("%tpu sync '../no such' --tpu magics", "no such does not exist on this computer."),
    ):
        *_, error = notebook.run(code)  # after its progress
        assert problem in error["evalue"]
        assert error["traceback"] == [error["evalue"]]
    notebook.run(f"{there} --overwrite")
    notebook.run(f"%tpu copy 'magics:my data' {back}")
    assert (back / "it's.txt").read_text() == "second"


def test_pull_unpickles_only_if_it_may(notebook):
    notebook.run("%%tpu\nimport fractions\nhalf = [fractions.Fraction(1, 2)]")
    output = notebook.complaint("%tpu pull half")
    assert "half[0] is of the class fractions.Fraction. It would have to be unpickled" in output
    assert "allow it: --unpickle" in output
    assert notebook.text("%tpu pull half --unpickle").startswith("Pulled half")
    assert notebook.text("print(half)") == "[Fraction(1, 2)]\n"


def test_what_cannot_be_copied_is_reported_and_the_kernel_goes_on(notebook):
    assert "The variable nothing does not exist in this notebook" in notebook.complaint(
        "%tpu push nothing"
    )
    assert "The variable nothing does not exist in this kernel" in notebook.complaint(
        "%tpu pull nothing"
    )
    notebook.run("generator = (x for x in [1])")
    assert "can't be pickled" in notebook.complaint("%tpu push generator")
    assert "'1x' is not the name of a variable" in notebook.complaint("%tpu push 1x")
    assert notebook.text("%%tpu\nprint('here')") == "here\n"


def test_an_interrupted_copy_is_one_sentence_and_the_kernel_goes_on(notebook):
    notebook.run("import numpy as np\nlarge = np.empty(300_000_000, 'u1')")
    *_, error = notebook.interrupted("%tpu push large")
    assert error["traceback"] == ["Interrupted. The variables may not have been set on magics."]
    assert notebook.text("del large\n%tpu auto off").startswith("Automatic running is off")
    assert notebook.text("%%tpu\nprint('large' in dir())").endswith("False\n")


def test_an_error_there_is_caught_here_by_its_class(notebook):
    caught = (
        "try: get_ipython().run_cell_magic('tpu', '', {code!r})\n"
        "except {kind} as error: print(type(error).__name__, error)"
    )
    assert notebook.text(caught.format(code="1 / 0", kind="ZeroDivisionError")) == (
        "ZeroDivisionError division by zero\n"
    )
    code = "import json\njson.loads('{')"
    assert notebook.text(caught.format(code=code, kind="ValueError")).startswith("JSONDecodeError")


def test_a_cell_that_is_not_waited_for_has_a_handle(notebook, emulator):
    [host] = emulator.hosts(NAME)
    folder = notebook.text("%%tpu\nimport os; print(os.getcwd())").strip()
    notebook.run(
        "%%tpu --no-wait --out job\nimport pathlib, time\nprint('begun', flush=True)\n"
        "while not pathlib.Path('free').exists(): time.sleep(0.01)\nx = 6\nx * 7"
    )
    notebook.run("import time\nwhile job.output != 'begun\\n': time.sleep(0.01)")
    assert re.fullmatch(
        r"<cell on magics: running, \d+ s> False\n", notebook.text("print(job, job.done())")
    )
    (error,) = notebook.run("job.result(timeout=0.01)")
    assert error["ename"] == "TimeoutError"
    # A cell that waits for it can be interrupted, and the handle's goes on.
    *_, error = notebook.interrupted("%%tpu\n'never'")
    assert error["evalue"] == "This cell did not start. The one before it still runs on magics."
    Path(host["folder"] + folder, "free").touch()
    assert (
        notebook.text("print(job.result() + 1, job.done(), job.output)") == "43 True begun\n42\n\n"
    )
    assert "ended" in notebook.text("print(job)")
    notebook.run("%%tpu --no-wait --out job\n[][1]")
    assert notebook.text("try: job.result()\nexcept LookupError as e: print(e)") == (
        "list index out of range\n"
    )
    assert "IndexError" in notebook.text("print(job.output)")
    # IPython's callbacks swallow an interrupt that comes before the cell's first line.
    notebook.run("%%tpu --no-wait --out job\nprint('begun', flush=True)\ntime.sleep(600)")
    notebook.run("while job.output != 'begun\\n': time.sleep(0.01)")
    refused = notebook.complaint("%tpu disconnect")
    assert "A cell of this notebook is still running on magics. End it?" in refused
    assert "or add --yes" in refused
    notebook.run("job.interrupt()")
    *_, error = notebook.run("job.result()")
    assert error["ename"] == "KeyboardInterrupt"


def test_with_auto_every_cell_runs_there_until_it_is_off(notebook):
    assert "Automatic running is on: every cell runs on magics" in notebook.text("%tpu auto on")
    node = notebook.text("import platform\nprint(platform.node())")
    assert node.startswith("t1v-n-")
    assert notebook.text("%%local\nimport platform\nprint(platform.node())") != node
    notebook.run("%%local\nhere = 1")
    assert notebook.text("print('here' in dir())") == "False\n"
    assert notebook.text("%%local\n%time print(here)").startswith("1\n")  # no part of it, either
    assert notebook.text("%%bash\nhostname") == node
    assert "is on" in notebook.text("%tpu status")
    assert "is off" in notebook.text("%tpu auto off")
    assert notebook.text("print(here)") == "1\n"
    assert notebook.text("%%local\nprint(here)") == "1\n"


def test_exit_in_a_cell_ends_the_kernel_there_and_says_so(notebook, shell):
    notebook.run("%%tpu\nkept = 1")
    (before,) = running(shell)
    output = notebook.text("%%tpu\nexit()")
    assert "exit() ended this notebook's kernel on magics. Its variables are lost." in output
    assert running(shell) == []
    assert notebook.text("%%tpu\nprint('kept' in dir())") == "False\n"
    (after,) = running(shell)
    assert after["id"] != before["id"]


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("%tpu frob", "No such command 'frob'. (see `%tpu --help`)"),
        ("%tpu conect x", "Did you mean connect"),
        ("%tpu connect", "Missing argument 'NAME'. (see `%tpu connect --help`)"),
        ("%tpu connect x --setup-script nowhere.sh", "Can't read nowhere.sh: No such file"),
        ("%tpu connect nothing", "The TPU nothing does not exist"),
        ("%tpu connect 'unclosed", "no closing quotation"),
        ("%tpu copy 'unclosed magics:", "no closing quotation"),
        ("%tpu copy 'a\0b' magics:", "A path has a NUL character."),
        ("%tpu copy magics:x magics:y", "A copy is from this computer to one TPU, or from one"),
        ("%tpu copy --worker 7 / magics:", "magics has no host 7."),
        ("%tpu run --worker 7 true", "magics has no host 7."),
        ("%tpu run --worker 1-0 true", "1-0 is not a range of hosts."),
        ("%tpu run ''", "The command must begin with a program"),
        ("%tpu run echo 'a\0b'", "can't have NUL characters."),
        ("%tpu run 'unclosed", "no closing quotation"),
        ("%tpu job start magics --worker 7 -- true", "magics has no host 7."),
        ("%tpu job start magics -- ''", "The command must begin with a program"),
        (
            "%tpu job start magics --cwd '../no such' -- true",
            "The folder ../no such does not exist",
        ),
        ("%tpu attach 'a;b'", "'a;b' is not the name of a machine."),
        ("%%tpu nothing\n1", "nothing has no kernel in this Jupyter. Add one: %tpu connect noth"),
        ("%%tpu magics --env other\n1", "magics has no kernel"),
    ],
)
def test_what_is_wrong_is_one_sentence(notebook, code, complaint):
    assert complaint in notebook.complaint(code)


def test_subcommands_and_tpus_are_completed(notebook):
    def completed(code: str) -> list[str]:
        notebook.client.complete(code)
        return notebook.client.get_shell_msg(timeout=LIMIT)["content"]["matches"]

    assert "connect" in completed("%tpu co")
    assert NAME in completed("%tpu connect ")
    assert NAME in completed("%%tpu mag")
    notebook.run("mine = 1")
    assert "mine" in completed("%tpu push ")
    assert "off" in completed("%tpu auto ")
    assert "logs" in completed("%tpu job ")
    assert "keep" in completed("%tpu guard ")


def test_describe_and_delete_name_the_notebook_whose_kernel_would_end(shell, notebook, emulator):
    notebook.run("%%tpu\n1")
    (kernel,) = running(shell)
    assert kernel["notebook"] == "my.ipynb"
    assert "my.ipynb" in shell.out("describe", NAME)
    complaint = shell.complaint("delete", NAME)
    assert f"This shuts down 1 kernel on {NAME}. Its variables will be lost." in complaint
    assert "Kernels: my.ipynb" in complaint
    terminal = Terminal(shell, "disconnect", NAME)
    terminal.expect(r"This shuts down 1 kernel on .* Kernels: my.ipynb .*\[y/N\] ")
    terminal.type("n\n")
    assert terminal.end() == 1
    assert state_of(emulator, NAME) == "READY"
    assert len(running(shell)) == 1


def test_another_kernel_keeps_the_tpu_connected(shell, notebook):
    notebook.run("%%tpu\n1")
    other = Notebook({**shell.environment, "JPY_SESSION_NAME": "my.ipynb"})
    other.run("%%tpu\n1")
    assert len(running(shell)) == 2
    assert "stays connected" in other.text("%tpu disconnect")
    assert len(running(shell)) == 1
    assert "has no kernel on a TPU" in other.text("%tpu status")
    other.close()
    assert notebook.text("%%tpu\nprint('here')") == "here\n"


def test_the_kernel_there_ends_with_the_one_here(shell, connected_tpu):
    before = {kernel["id"] for kernel in running(shell)}
    other = Notebook({**shell.environment, "JPY_SESSION_NAME": "my.ipynb"})
    other.run(f"%%tpu {NAME}\n1")
    (mine,) = {kernel["id"] for kernel in running(shell)} - before
    other.close()
    assert mine not in {kernel["id"] for kernel in running(shell)}


def test_disconnecting_takes_the_kernel_out_of_jupyter(shell, notebook, tmp_path):
    assert notebook.text(f"%tpu disconnect {NAME}").startswith(f"Disconnected {NAME}")
    assert shell.json("kernel", "list", "--json") == []
    shown = notebook.run(f"%tpu connect {NAME}")
    kinds = [output["type"] for output in shown]
    assert kinds[0] == "display_data"  # one display, which is updated
    assert set(kinds[1:-1]) <= {"update_display_data"}
    assert "<progress" in shown[0]["data"]["text/html"]
    assert notebook.text("%%tpu\nprint('again')") == "again\n"


def test_tunnels_are_opened_listed_and_removed_in_a_notebook(notebook):
    output = notebook.text(f"%tpu tunnel {NAME} 6006")
    match = re.match(rf"localhost:(\d+) forwards to port 6006 of {NAME}\b", output)
    assert match, output
    assert f"localhost:{match[1]}" in notebook.text("%tpu tunnel list")
    assert f"localhost:{match[1]}" in notebook.text(f"%tpu tunnel list {NAME}")
    assert "70000 is not a port" in notebook.complaint(f"%tpu tunnel {NAME} 70000")
    assert "is not PORT or PORT:LOCAL" in notebook.complaint(f"%tpu tunnel open {NAME} x")
    assert notebook.text(f"%tpu tunnel close {match[1]}").startswith("Closed: localhost")
    complaint = notebook.complaint(f"%tpu tunnel close {match[1]}")
    assert f"The tunnel {match[1]} does not exist" in complaint
    assert notebook.text("%tpu tunnel list").startswith("No tunnels.")
