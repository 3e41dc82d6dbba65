"""A kernel on a host is to an unmodified jupyter_client what a local one is.

No SSH here: what is tried are relay, keeper and agent (see `local_host.py`).
"""

import html
import json
from collections.abc import Iterator

import pytest
from jupyter_client.manager import KernelManager
from jupyter_client.session import Session
from local_kernels import Notebook, local_host

LINES = 100_000


@pytest.fixture(scope="module")
def manager() -> Iterator[KernelManager]:
    with local_host("parity") as (_, make):
        manager = make()
        manager.start_kernel()
        yield manager
        manager.shutdown_kernel()


@pytest.fixture(scope="module")
def shared(manager: KernelManager) -> Iterator[Notebook]:
    notebook = Notebook(manager)
    yield notebook
    notebook.close()


@pytest.fixture
def notebook(shared: Notebook) -> Notebook:
    """The one kernel, idle and with nothing left to read."""
    while shared.client.iopub_channel.msg_ready():
        shared.client.get_iopub_msg(timeout=1)
    return shared


PAGE = """
import http.server, threading
from IPython.display import HTML, display
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) for _ in range(2)]
for server in servers: threading.Thread(target=server.serve_forever, daemon=True).start()
port, board = (server.server_port for server in servers)
print(f"* Running on local URL:  http://127.0.0.1:{port}")
display(HTML(f'<iframe src="http://127.0.0.1:{port}/" width="100%"></iframe>'))
display(HTML('<iframe id="tensorboard-frame-1"></iframe><script>(function() {\\n'
             f'const url = new URL("/", window.location);\\n const port = {board};\\n'))
print("not of a program here: http://localhost:1/")
"""


def test_a_page_that_a_cell_has_started_is_offered_once(notebook):
    """As gradio.launch() and %tensorboard: their address means nothing to the browser."""
    content, seen = notebook.run(PAGE)
    assert content["status"] == "ok", content
    ports = notebook.text("print(port, board)").split()
    offers = [m["content"]["data"] for m in seen if "app open" in str(m["content"].get("data"))]
    assert [offer["text/plain"].rpartition(": ")[2] for offer in offers] == [
        f"jupyter tpu app open parity {port}" for port in ports
    ]
    assert '"tpu:show-app"' in offers[0]["text/html"]
    target = json.dumps({"tpu": "z/parity", "host": 0, "port": int(ports[0])})
    assert html.escape(target) in offers[0]["text/html"]
    notebook.text("for server in servers: server.shutdown()")


def test_it_runs_in_the_hosts_home_with_a_clean_environment(notebook):
    shown = notebook.text(
        "import os, sys\n"
        "print(os.getcwd() == os.path.expanduser('~'), sys.prefix == os.environ['VIRTUAL_ENV'],"
        " [n for n in os.environ if n.startswith('SSH_')],"
        " [p for p in sys.path if '.jupyter' in p])"
    )
    assert shown == "True True [] []\n"


def test_input_is_asked_for_and_given(notebook):
    def answer(message: dict) -> None:
        assert message["content"]["prompt"] == "name? "
        notebook.client.input("Ada")

    shown = notebook.text("print('hello', input('name? '))", allow_stdin=True, stdin_hook=answer)
    assert shown == "hello Ada\n"


def test_completion_inspection_and_history_are_answered(notebook):
    client = notebook.client
    notebook.text("a_long_name = 3")
    matches = client.complete("a_long_n", reply=True, timeout=60)["content"]["matches"]
    assert matches == ["a_long_name"]
    assert client.inspect("a_long_name", reply=True, timeout=60)["content"]["found"] is True
    history = client.history(hist_access_type="tail", n=1, reply=True, timeout=60)
    assert history["content"]["status"] == "ok"
    client.is_complete("for x in y:")
    assert client.get_shell_msg(timeout=60)["content"]["status"] == "incomplete"


def test_a_widget_lives_on_both_sides(notebook):
    _, seen = notebook.run("import ipywidgets as w\ns = w.IntSlider(value=3)\ns")
    opened = [m for m in seen if m["msg_type"] == "comm_open"]
    (slider,) = [
        m for m in opened if m["content"]["data"]["state"]["_model_name"] == "IntSliderModel"
    ]
    session = notebook.client.session
    update = {"method": "update", "state": {"value": 7}, "buffer_paths": []}
    content = {"comm_id": slider["content"]["comm_id"], "data": update}
    notebook.client.shell_channel.send(session.msg("comm_msg", content))
    assert notebook.text("print(s.value)") == "7\n"


def test_binary_buffers_of_comms_arrive_as_they_are(notebook):
    _, seen = notebook.run(
        "from comm import create_comm\nc = create_comm(target_name='t', data={'a': 1},"
        " buffers=[bytes(range(256)) * 1000])"
    )
    (opened,) = [m for m in seen if m["msg_type"] == "comm_open"]
    assert bytes(opened["buffers"][0]) == bytes(range(256)) * 1000


def test_no_line_of_many_is_lost(notebook):
    shown = notebook.text(f"for i in range({LINES}): print(i)")
    assert shown.split() == [str(number) for number in range(LINES)]


def test_a_message_of_50_mb_arrives_whole(notebook):
    _, seen = notebook.run(
        "from IPython.display import display\n"
        "display({'text/plain': '0123456789' * 5_000_000}, raw=True)"
    )
    (display,) = [m for m in seen if m["msg_type"] == "display_data"]
    assert display["content"]["data"]["text/plain"] == "0123456789" * 5_000_000


def test_a_large_cell_arrives_whole(notebook):
    text = "0123456789" * 200_000
    assert notebook.text(f"print(len({text!r}))") == "2000000\n"


def test_several_clients_get_their_own_answers_and_all_the_output(notebook):
    # A session, and so an identity, of its own, as clients in other processes have.
    other = Notebook(notebook.manager, session=Session(key=notebook.manager.session.key))
    try:
        for asking, text in ((notebook, "from one"), (other, "from the other")):
            request = asking.client.execute(f"print({text!r})")
            reply = asking.client.get_shell_msg(timeout=60)
            assert reply["parent_header"]["msg_id"] == request
            for who in (notebook, other):
                who.until_output(request, text)
    finally:
        other.close()


def test_kernel_info_is_answered_while_a_cell_runs_and_the_kernel_stays_busy(notebook):
    client = notebook.client
    running = client.execute("import time\nprint('begun')\ntime.sleep(600)")
    notebook.until_output(running, "begun")
    asked = client.kernel_info()
    reply = client.get_shell_msg(timeout=60)
    assert reply["msg_type"] == "kernel_info_reply"
    assert reply["content"]["language_info"]["name"] == "python"
    states = []
    while len(states) < 3:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "status":
            parent = message["parent_header"]["msg_id"]
            states.append((message["content"]["execution_state"], parent))
    assert states == [("busy", asked), ("idle", asked), ("busy", running)]
    notebook.manager.interrupt_kernel()
    notebook.until_idle(running)
    client.get_shell_msg(timeout=60)


def test_a_request_with_a_wrong_signature_is_not_answered(notebook):
    stranger = notebook.manager.client(session=Session(key=b"wrong"))
    stranger.start_channels()
    stranger.kernel_info()
    stranger.execute("open('touched', 'w')")
    assert notebook.text("import os; print(os.path.exists('touched'))") == "False\n"
    assert not stranger.shell_channel.msg_ready()
    stranger.stop_channels()


def test_a_restart_keeps_id_and_ports_and_forgets_the_state(manager, notebook):
    ports, kernel_id = manager.ports, manager.kernel_id
    notebook.run("kept = 1")
    before = notebook.text("import os; print(os.getpid())")
    manager.restart_kernel()
    notebook.client.wait_for_ready(timeout=60)
    assert (manager.ports, manager.kernel_id) == (ports, kernel_id)
    assert notebook.text("print('kept' in globals())") == "False\n"
    assert notebook.text("import os; print(os.getpid())") != before
    notebook.run("kept = 1")
    manager.restart_kernel(now=True)
    notebook.client.wait_for_ready(timeout=60)
    assert notebook.text("print('kept' in globals())") == "False\n"
