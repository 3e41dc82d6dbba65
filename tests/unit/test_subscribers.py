"""Callbacks come and go, also while they are called."""

from jupyter_tpu.files.sync.mirrors import Mirrors
from jupyter_tpu.subscribers import Subscribers


def test_a_callback_that_is_removed_while_others_are_called_is_not_called_again():
    subscribers, got = Subscribers[int](), []
    removals = [subscribers.add(lambda value: (got.append(value), removals[0]()))]
    subscribers.add(got.append)
    for value in (1, 2):
        for callback in subscribers:
            callback(value)
    assert got == [1, 1, 2]


def test_to_unsubscribe_twice_does_no_harm_to_the_others(tmp_path):
    mirrors = Mirrors(tmp_path)
    unsubscribe = mirrors.subscribe(print)
    mirrors.subscribe(print)
    unsubscribe()
    unsubscribe()
    assert len(list(mirrors._subscribers)) == 1
