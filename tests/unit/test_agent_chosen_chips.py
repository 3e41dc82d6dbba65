"""Chips of a host for one kernel each: which can be chosen, what libtpu is told, and the book."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from jupyter_tpu.on_host.agent.daemon.chip_checks import booked_by, require_unbooked
from jupyter_tpu.on_host.agent.daemon.handlers import OperationError
from jupyter_tpu.on_host.agent.keeper import booking
from jupyter_tpu.on_host.agent.protocol.chosen_chips import (
    chip_variables,
    devices_by_chip,
    group_sizes,
    groups,
    is_known,
    problem_of,
)

SMALL = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "TPU7x", "TPU8t")


@pytest.mark.parametrize("generation", SMALL)
@pytest.mark.parametrize(
    ("chips", "of", "visible", "bounds", "port", "metrics"),
    [
        ([0], 4, "0", "1,1,1", "8476", "8431"),
        ([3], 4, "3", "1,1,1", "8479", "8434"),
        ([2, 3], 4, "2,3", "1,2,1", "8478", "8433"),
        ([7], 8, "7", "1,1,1", "8483", "8438"),
        ([4, 5, 6, 7], 8, "4,5,6,7", "1,4,1", "8480", "8435"),
    ],
)
def test_a_process_with_some_chips_is_told_all_that_libtpu_asks(
    generation, chips, of, visible, bounds, port, metrics
):
    variables = chip_variables(chips, of, generation, {})
    expected = {
        "TPU_VISIBLE_CHIPS": visible,
        "TPU_VISIBLE_DEVICES": visible,
        "TPU_CHIPS_PER_PROCESS_BOUNDS": bounds,
        "TPU_CHIPS_PER_HOST_BOUNDS": bounds,
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_HOST_BOUNDS": "1,1,1",
        "TPU_PROCESS_ADDRESSES": f"localhost:{port}",
        "TPU_PROCESS_PORT": port,
        "CLOUD_TPU_TASK_ID": "0",
        "TPU_RUNTIME_METRICS_PORTS": metrics,
    }
    if generation in ("v2", "v3"):
        expected |= {
            "TPU_MESH_CONTROLLER_ADDRESS": f"localhost:{port}",
            "TPU_MESH_CONTROLLER_PORT": port,
        }
    assert variables == expected


@pytest.mark.parametrize(("chips", "bounds"), [([3], "1,1,1"), ([2, 3], "2,1,1")])
def test_the_chips_of_a_tpu_8i_host_are_in_one_row(chips, bounds):
    variables = chip_variables(chips, 4, "TPU8i", {})
    assert variables["TPU_CHIPS_PER_PROCESS_BOUNDS"] == bounds
    assert variables["TPU_CHIPS_PER_HOST_BOUNDS"] == bounds


def test_an_emulated_host_simulates_as_many_devices_as_chips_were_chosen():
    variables = chip_variables([2, 3], 4, "v3", {"JUPYTER_TPU_EMULATED_CORES": "2"})
    assert variables["JAX_NUM_CPU_DEVICES"] == "4"
    assert "JAX_NUM_CPU_DEVICES" not in chip_variables([0], 4, "v5e", {})


@pytest.mark.parametrize(
    ("chips", "of", "problem"),
    [
        ([0], 4, ""),
        ([2, 3], 4, ""),
        ([4, 5, 6, 7], 8, ""),
        ([4], 4, "The host has the chips 0 to 3."),
        ([-1], 4, "The host has the chips 0 to 3."),
        ([0], 0, "The host has no chips."),
        ([0], 1, "A kernel gets all chips of this host."),
        ([0, 1, 2], 4, "Of 4 chips, a kernel can have 1, 2, or all."),
        ([0, 1, 2, 3], 4, "Of 4 chips, a kernel can have 1, 2, or all."),
        ([1, 2], 4, "The chips of one kernel must be neighbors: 0-1, 2-3."),
        ([3, 2], 4, "The chips of one kernel must be neighbors: 0-1, 2-3."),
        ([0, 0], 4, "The chips of one kernel must be neighbors: 0-1, 2-3."),
    ],
)
def test_a_choice_that_no_process_can_have_is_refused_with_what_it_can_have(chips, of, problem):
    assert problem_of(chips, of) == problem


@pytest.mark.parametrize("of", [1, 4, 8])
def test_every_group_that_is_offered_can_be_chosen_and_each_chip_is_in_one(of):
    for size in group_sizes(of):
        offered = groups(size, of)
        assert sorted(chip for group in offered for chip in group) == list(range(of))
        assert [problem_of(group, of) for group in offered] == [""] * len(offered)
        layouts = [chip_variables(group, of, "v5e", {}) for group in offered]
        ports = {layout["TPU_PROCESS_PORT"] for layout in layouts}
        assert len(ports) == len(offered), "processes beside each other have ports of their own"


def test_what_nobody_is_known_to_have_tried_is_marked():
    assert is_known("v5e", 4, 8)
    assert not is_known("TPU7x", 1, 4)
    assert not is_known("TPU8t", 1, 4)
    assert not is_known("v4", 4, 8)


def test_chips_are_in_the_order_of_their_pci_addresses(tmp_path):
    (tmp_path / "dev/vfio").mkdir(parents=True)
    for name in ("vfio", "0", "3", "10"):
        (tmp_path / "dev/vfio" / name).touch()
    assert devices_by_chip(str(tmp_path)) == [{"/dev/vfio/0"}, {"/dev/vfio/3"}, {"/dev/vfio/10"}]
    bus = tmp_path / "sys/bus/pci/devices"
    # A chip of a TPU7x has one function, and so one file, for each core.
    for address, group in (("0000:00:04.0", 10), ("0000:00:04.1", 0), ("0000:00:05.0", 3)):
        (bus / address).mkdir(parents=True)
        (bus / address / "vendor").write_text("0x1ae0\n")
        (bus / address / "iommu_group").symlink_to(f"/sys/kernel/iommu_groups/{group}")
    assert devices_by_chip(str(tmp_path)) == [{"/dev/vfio/10", "/dev/vfio/0"}, {"/dev/vfio/3"}]


@pytest.mark.parametrize(
    ("chips", "booked", "notebook", "message"),
    [
        ([0], [0], "a/b.ipynb", "Chip 0 of t is in use by the kernel of b.ipynb, which was "
         "started with chip 0."),
        ([], [2, 3], "", "The chips of t are in use by the kernel k, which was started with "
         "chips 2-3."),
        ([0, 1], [], "b.ipynb", "Chips 0-1 of t are in use by the kernel of b.ipynb, which was "
         "started for all chips."),
    ],
)  # fmt: skip
def test_who_has_the_chips_is_reported_in_one_sentence(chips, booked, notebook, message):
    kernel = {"id": "k", "notebook": notebook, "booked": booked}
    answer = booked_by(kernel, chips, "t").answer
    assert (answer["reason"], answer["message"]) == ("CHIPS_HELD", message)
    assert "`jupyter tpu kernel stop t k`" in answer["hint"]


# ---- the book -----------------------------------------------------------------------------------

#: A keeper, as far as the book knows it: it books, gives back, and can be killed.
KEEPER = """
import sys
exec(compile(open(sys.argv[1]).read(), "booking", "exec"))
for line in sys.stdin:
    chips = eval(line)
    try:
        if chips == "release":
            booking.release()
        else:
            booking = Booking(sys.argv[2], chips)
        print("done", flush=True)
    except ChipsBooked:
        print("booked", flush=True)
"""
CHOICES = [None, [], [0], [1], [2], [3], [0, 1], [2, 3]]
IDS = range(4)


class KeeperProcess:
    def __init__(self, book: Path) -> None:
        command = [sys.executable, "-I", "-S", "-c", KEEPER, booking.__file__, str(book)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, chips: Any) -> None:
        assert self._process.stdin is not None
        print(repr(chips), file=self._process.stdin, flush=True)

    def answer(self) -> str:
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def conflict(one: list[int] | None, other: list[int] | None) -> bool:
    """Whether two kernels can't be there at once."""
    if one is None or other is None or (not one and not other):
        return False
    return not one or not other or bool(set(one) & set(other))


def test_no_chip_is_given_twice_however_kernels_start_end_and_die(tmp_path):
    book = tmp_path / "chips"
    keepers: dict[int, KeeperProcess] = {}

    class Book(RuleBasedStateMachine):
        """Two clients start kernels on one host; their daemons may come and go."""

        def __init__(self) -> None:
            super().__init__()
            self.booked: dict[int, list[int] | None] = {}  # of the kernels that run
            for id in IDS:
                if id not in keepers:
                    keepers[id] = KeeperProcess(book)

        def free(self, choice: list[int] | None) -> bool:
            return not any(conflict(choice, other) for other in self.booked.values())

        @rule(id=st.sampled_from(IDS), choice=st.sampled_from(CHOICES))
        def start(self, id: int, choice: list[int] | None) -> None:
            if id in self.booked:
                return
            expected = self.free(choice)
            if choice is not None:
                assert self.is_unbooked(choice) == expected, "what a daemon says before"
            keepers[id].ask(choice)
            assert keepers[id].answer() == ("done" if expected else "booked")
            if expected:
                self.booked[id] = choice

        def is_unbooked(self, choice: list[int]) -> bool:
            """A daemon, which was just started, reads it from the keepers alone."""
            statuses = [
                {"id": str(id), "state": "idle", "notebook": "", "booked": chips}
                for id, chips in self.booked.items()
            ]
            try:
                require_unbooked(statuses, choice, "t")
            except OperationError:
                return False
            return True

        @precondition(lambda self: len(self.booked) <= len(IDS) - 2)
        @rule(first=st.sampled_from(CHOICES), second=st.sampled_from(CHOICES))
        def race(self, first: list[int] | None, second: list[int] | None) -> None:
            """Two clients at once: each daemon has seen that the chips are free."""
            if not (self.free(first) and self.free(second)):
                return
            left = [id for id in IDS if id not in self.booked]
            asked = {left[0]: first, left[1]: second}
            for id, chips in asked.items():
                keepers[id].ask(chips)
            got = [id for id in asked if keepers[id].answer() == "done"]
            assert len(got) == (1 if conflict(first, second) else 2)
            for id in got:  # who won is chance, and what follows must not depend on it
                keepers[id].ask("release")
                assert keepers[id].answer() == "done"

        @precondition(lambda self: self.booked)
        @rule(data=st.data(), how=st.sampled_from(["end", "kill", "restart"]))
        def end(self, data: Any, how: str) -> None:
            id = data.draw(st.sampled_from(sorted(self.booked)))
            chips = self.booked.pop(id)
            if how == "kill":
                keepers[id].kill()
                keepers[id] = KeeperProcess(book)
                return
            keepers[id].ask("release")
            assert keepers[id].answer() == "done"
            if how == "restart":
                keepers[id].ask(chips)
                assert keepers[id].answer() == "done", "they are free again"
                self.booked[id] = chips

        def teardown(self) -> None:
            for id in self.booked:
                keepers[id].ask("release")
                assert keepers[id].answer() == "done"

    try:
        run_state_machine_as_test(
            Book, settings=settings(max_examples=25, stateful_step_count=12, deadline=None)
        )
    finally:
        for keeper in keepers.values():
            keeper.kill()
