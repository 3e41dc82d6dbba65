"""The forms in which libtpu writes what a compiled program sends, reads and writes.

Each text is what libtpu 0.0.42 or 0.0.50 makes of a program, cut down to what matters.
"""

from __future__ import annotations

import pytest

from jupyter_tpu.jaxkit.compile.collectives import group_size, read_collectives
from jupyter_tpu.jaxkit.compile.costs import program_costs
from jupyter_tpu.jaxkit.compile.hlo import Program

MB = 1 << 20


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ("{{0,1,2,3},{4,5,6,7}}", 4),
        ("[2,4]<=[8]", 4),
        ("[4,2]<=[2,4]T(1,0)", 2),
        ("mesh['a'=4,'b'=2] {'b'}", 2),
        ("mesh['axis_0'=4,'axis_1'=1,'axis_2'=2] {'axis_0','axis_2'}", 8),
        ("mesh['a'=8,'b'=2] {'a':(2)4,'b'}", 8),
        ("{}", 8),
    ],
)
def test_the_devices_of_a_group_are_counted_in_each_notation(groups: str, size: int) -> None:
    rest = f"all-gather(%x), channel_id=1, replica_groups={groups}, dimensions={{0}}"
    assert group_size(rest, 8) == size


ASYNCHRONOUS = """%begins (p: bf16[1024,512]) -> (bf16[1024,512], bf16[4096,512]) {
  %p = bf16[1024,512]{1,0:T(8,128)(2,1)} parameter(0)
  %g1 = bf16[4096,512]{1,0:T(8,128)(2,1)} all-gather(%p), channel_id=3, replica_groups=mesh['a'=4] \
{'a'}, dimensions={0}
  ROOT %s = (bf16[1024,512]{1,0}, bf16[4096,512]{1,0}, u32[]{:S(2)}) custom-call(%g1), \
custom_call_target="AsyncCollectiveStart"
}

%goes_on (q: bf16[1024,512], r: bf16[4096,512], x: f32[512,512]) -> (f32[512,512], bf16[1024,512]) {
  %q = bf16[1024,512]{1,0:T(8,128)(2,1)} parameter(0)
  %r = bf16[4096,512]{1,0:T(8,128)(2,1)} parameter(1)
  %x = f32[512,512]{1,0:T(8,128)} parameter(2)
  %y = f32[512,512]{1,0:T(8,128)} tanh(%x)
  %g2 = bf16[4096,512]{1,0:T(8,128)(2,1)} all-gather(%q), channel_id=3, replica_groups=mesh['a'=4] \
{'a'}, dimensions={0}
  ROOT %t = (f32[512,512]{1,0}, bf16[1024,512]{1,0}, bf16[4096,512]{1,0}, bf16[4096,512]{1,0}) \
tuple(%y, %q, %g2, %r)
}

%ends (u: bf16[1024,512], v: bf16[4096,512]) -> bf16[4096,512] {
  %u = bf16[1024,512]{1,0:T(8,128)(2,1)} parameter(0)
  %v = bf16[4096,512]{1,0:T(8,128)(2,1)} parameter(1)
  %g3 = bf16[4096,512]{1,0:T(8,128)(2,1)} all-gather(%u), channel_id=3, replica_groups=mesh['a'=4] \
{'a'}, dimensions={0}
  ROOT %d = bf16[4096,512]{1,0} custom-call(%u, %v, %g3), custom_call_target="AsyncCollectiveDone"
}

ENTRY %main (a: bf16[1024,512], b: f32[512,512]) -> bf16[4096,512] {
  %a = bf16[1024,512]{1,0:T(8,128)(2,1)} parameter(0)
  %b = f32[512,512]{1,0:T(8,128)} parameter(1)
  %one = (bf16[1024,512]{1,0}, bf16[4096,512]{1,0}, u32[]{:S(2)}) fusion(%a), kind=kCustom, \
calls=%begins
  %o0 = bf16[1024,512]{1,0} get-tuple-element(%one), index=0
  %o1 = bf16[4096,512]{1,0} get-tuple-element(%one), index=1
  %two = (f32[512,512]{1,0}, bf16[1024,512]{1,0}, bf16[4096,512]{1,0}, bf16[4096,512]{1,0}) \
fusion(%o0, %o1, %b), kind=kOutput, calls=%goes_on
  %t0 = bf16[1024,512]{1,0} get-tuple-element(%two), index=1
  %t1 = bf16[4096,512]{1,0} get-tuple-element(%two), index=3
  ROOT %three = bf16[4096,512]{1,0} fusion(%t0, %t1), kind=kCustom, calls=%ends
}
"""


def test_an_asynchronous_collective_is_one_whatever_goes_on_beside_it() -> None:
    program = Program(ASYNCHRONOUS)
    (row,), unknown = read_collectives(program, 4)
    assert not unknown
    assert (row.kind, row.count, row.bytes) == ("all-gather", 1, 4 * MB)
    assert row.sent_bytes == row.sent_by_all == 3 * MB
    # A part is read and the whole written, once; beside it, 1 MiB is read and written.
    assert program_costs(program).hbm_traffic_bytes == 1 * MB + 4 * MB + 2 * MB


SCATTERED = """%all-reduce-scatter (input: f32[1024,256]) -> f32[256,256] {
  %input = f32[1024,256]{1,0:T(8,128)} parameter(0)
  %all-reduce.1 = f32[1024,256]{1,0:T(8,128)} all-reduce(%input), channel_id=3, \
replica_groups={{0,1,2,3}}, to_apply=%add
  %zero = u32[] constant(0)
  ROOT %part = f32[256,256]{1,0:T(8,128)S(1)} dynamic-slice(%all-reduce.1, %zero, %zero), \
dynamic_slice_sizes={256,256}
}

ENTRY %main (a: f32[1024,256]) -> f32[256,256] {
  %a = f32[1024,256]{1,0:T(8,128)} parameter(0)
  ROOT %fusion = f32[256,256]{1,0:T(8,128)S(1)} fusion(%a), kind=kCustom, calls=%all-reduce-scatter
}
"""


def test_a_reduction_of_which_a_fusion_keeps_a_part_is_a_reduce_scatter() -> None:
    program = Program(SCATTERED)
    (row,), _ = read_collectives(program, 8)
    assert (row.kind, row.count) == ("reduce-scatter", 1)
    assert row.bytes == 256 * 1024
    assert (row.sent_bytes, row.sent_by_all) == (3 * 256 * 1024, 0)
    assert program_costs(program).hbm_traffic_bytes == 1 * MB  # the part stays on the chip


HOST = """%body (p: (s32[], f32[8,1024,1024], f32[1024,1024])) -> (s32[], f32[8,1024,1024]) {
  %p = (s32[], f32[8,1024,1024]{2,1,0:T(8,128)S(5)}, f32[1024,1024]{1,0:T(8,128)}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %h = f32[8,1024,1024]{2,1,0:T(8,128)S(5)} get-tuple-element(%p), index=1
  %x = f32[1024,1024]{1,0:T(8,128)} get-tuple-element(%p), index=2
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %new = f32[1,1024,1024]{2,1,0:T(8,128)} bitcast(%x)
  %start = ((f32[8,1024,1024]{2,1,0:S(5)}, f32[1,1024,1024]{2,1,0}, s32[]), \
f32[8,1024,1024]{2,1,0:S(5)}, u32[]{:S(2)}) dynamic-update-slice-start(%h, %new, %i)
  %done = f32[8,1024,1024]{2,1,0:T(8,128)S(5)} dynamic-update-slice-done(%start)
  ROOT %t = (s32[], f32[8,1024,1024]{2,1,0:S(5)}, f32[1024,1024]{1,0}) tuple(%next, %done, %x)
}

%cond (q: (s32[], f32[8,1024,1024], f32[1024,1024])) -> pred[] {
  %q = (s32[], f32[8,1024,1024]{2,1,0:S(5)}, f32[1024,1024]{1,0}) parameter(0)
  %j = s32[] get-tuple-element(%q), index=0
  %limit = s32[] constant(8)
  ROOT %less = pred[] compare(%j, %limit), direction=LT
}

ENTRY %main (a: f32[1024,1024]) -> f32[8,1024,1024] {
  %a = f32[1024,1024]{1,0:T(8,128)} parameter(0)
  %none = s32[] constant(0)
  %room = f32[8,1024,1024]{2,1,0:T(8,128)S(5)} custom-call(), custom_call_target="AllocateBuffer"
  %empty = f32[4096,1024]{1,0:T(8,128)} custom-call(), custom_call_target="AllocateBuffer"
  %all = (s32[], f32[8,1024,1024]{2,1,0:S(5)}, f32[1024,1024]{1,0}) tuple(%none, %room, %a)
  %loop = (s32[], f32[8,1024,1024]{2,1,0:S(5)}, f32[1024,1024]{1,0}) while(%all), \
condition=%cond, body=%body
  ROOT %r = f32[8,1024,1024]{2,1,0:T(8,128)S(5)} get-tuple-element(%loop), index=1
}
"""


def test_what_goes_to_the_host_is_read_from_hbm_once_and_its_memory_is_no_hbm() -> None:
    costs = program_costs(Program(HOST))
    assert not costs.unknown_loops
    # Each layer once, whatever the number of layers; room that is allocated is not written.
    assert costs.hbm_traffic_bytes == pytest.approx(8 * 4 * MB, abs=256)
    assert costs.host_traffic_bytes == 8 * 4 * MB


EMBEDDING = """%rows (t: f32[32768,256], i: s32[1024], u: f32[1024,256]) -> f32[32768,256] {
  %t = f32[32768,256]{1,0:T(8,128)} parameter(0)
  %i = s32[1024]{0:T(1024)S(1)} parameter(1)
  %u = f32[1024,256]{1,0:T(8,128)S(1)} parameter(2)
  ROOT %scatter = f32[32768,256]{1,0:T(8,128)} scatter(%t, %i, %u), to_apply=%add
}

ENTRY %main (i: s32[1024], u: f32[1024,256]) -> f32[32768,256] {
  %ids = s32[1024]{0:T(1024)S(1)} parameter(0)
  %update = f32[1024,256]{1,0:T(8,128)S(1)} parameter(1)
  %zero = f32[] constant(0)
  %zeros = f32[32768,256]{1,0:T(8,128)} broadcast(%zero), dimensions={}
  ROOT %fusion = f32[32768,256]{1,0:T(8,128)} fusion(%zeros, %ids, %update), kind=kCustom, \
calls=%rows
}
"""


def test_the_gradient_of_an_embedding_is_written_once_and_updated_in_place() -> None:
    # 32 MiB of zeros; then 1 MiB of rows is read and written.
    traffic = program_costs(Program(EMBEDDING)).hbm_traffic_bytes
    assert traffic == pytest.approx(32 * MB + 2 * MB, abs=64)


WIDE = """%cond (q: (u32[], u32[])) -> pred[] {
  %q = (u32[], u32[]) parameter(0)
  %low = u32[] get-tuple-element(%q), index=0
  %high = u32[] get-tuple-element(%q), index=1
  %nothing = u32[] constant(0)
  %limit = u32[] constant(16)
  %none = s32[] constant(0)
  %same = pred[] compare(%high, %nothing), direction=EQ
  %less = pred[] compare(%low, %limit), direction=LT
  %both = pred[] and(%same, %less)
  %signed = s32[] bitcast-convert(%high)
  %negative = pred[] compare(%signed, %none), direction=LT
  ROOT %or = pred[] or(%negative, %both)
}

%body (p: (u32[], u32[])) -> (u32[], u32[]) {
  ROOT %p = (u32[], u32[]) parameter(0)
}

ENTRY %main (a: (u32[], u32[])) -> (u32[], u32[]) {
  %a = (u32[], u32[]) parameter(0)
  ROOT %loop = (u32[], u32[]) while(%a), condition=%cond, body=%body
}
"""


def test_a_loop_with_a_counter_of_64_bits_has_a_known_length() -> None:
    runs = {name: (times, certain) for name, times, certain in Program(WIDE).runs()}
    assert runs["body"] == (16, True)
