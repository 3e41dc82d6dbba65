"""When memory goes back to the system."""

from jupyter_tpu.links.free_memory import CALM_LOOKS, MANY_LINKS, FreeMemory


def test_it_goes_back_once_when_many_links_have_come_and_no_more_come():
    memory = FreeMemory()
    coming = [memory.look(links) for links in range(MANY_LINKS)]
    calm = [memory.look(MANY_LINKS) for _ in range(2 * CALM_LOOKS)]
    assert (any(coming), calm.count(True), calm.index(True)) == (False, 1, CALM_LOOKS)


def test_it_goes_back_again_when_as_many_come_after_others_have_gone():
    memory = FreeMemory()
    assert any(memory.look(3 * MANY_LINKS) for _ in range(2 * CALM_LOOKS))
    assert not any(memory.look(MANY_LINKS) for _ in range(2 * CALM_LOOKS))
    assert any(memory.look(2 * MANY_LINKS) for _ in range(2 * CALM_LOOKS))
