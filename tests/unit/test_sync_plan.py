"""What a sync plans: nothing that both sides have changed is ever overwritten or deleted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.files.sync.plan import Conflict, make_plan

#: Few paths and few states, so that all combinations come up.
trees = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["file 1", "file 2", "link 3"]))


@given(trees, trees, trees, st.booleans())
def test_what_the_target_has_changed_stays_as_it_is(source, target, base, delete):
    plan = make_plan(source, target, base, delete=delete)
    for path in plan.write:
        assert path in source
        assert target.get(path) in (None, base.get(path))
    for path in plan.delete:
        assert path not in source
        assert target[path] == base[path]
    if not delete:
        assert plan.delete == []


@given(trees, trees, trees, st.booleans(), st.booleans())
def test_what_was_never_in_the_source_is_never_deleted(source, target, base, delete, overwrite):
    plan = make_plan(source, target, base, delete=delete, overwrite=overwrite)
    assert set(plan.delete) <= set(base)


@given(trees, trees, trees)
def test_every_difference_is_carried_out_or_listed_once(source, target, base):
    plan = make_plan(source, target, base)
    listed = [
        *plan.write,
        *plan.delete,
        *plan.newer,
        *(conflict.path for conflict in plan.conflicts),
    ]
    different = {path for path in {*source, *target} if source.get(path) != target.get(path)}
    assert sorted(listed) == sorted(different)


@given(trees, trees, trees)
def test_a_second_sync_has_nothing_to_do(source, target, base):
    plan = make_plan(source, target, base)
    after, agreed = dict(target), dict(plan.agreed)
    for path in plan.write:
        after[path] = agreed[path] = source[path]
    for path in plan.delete:
        del after[path], agreed[path]
    again = make_plan(source, after, agreed)
    assert (again.write, again.delete) == ([], [])
    assert again.conflicts == plan.conflicts
    assert again.newer == plan.newer


@given(trees, trees, trees, st.sampled_from("abcd"))
def test_paths_outside_of_the_request_are_left_alone(source, target, base, only):
    plan = make_plan(source, target, base, overwrite=True, within=lambda path: path == only)
    assert {
        *plan.write,
        *plan.delete,
        *plan.newer,
        *(conflict.path for conflict in plan.conflicts),
    } <= {only}


@pytest.mark.parametrize(
    ("here", "there", "before", "kind"),
    [
        ("file 1", "file 2", "file 3", "changed"),
        ("file 1", "file 2", None, "different"),
        (None, "file 2", "file 3", "deleted"),
    ],
)
def test_a_conflict_says_what_happened(here, there, before, kind):
    def tree(state):
        return {} if state is None else {"a": state}

    plan = make_plan(tree(here), tree(there), tree(before))
    assert plan.conflicts == [Conflict("a", kind)]
