"""Upsets in the cells of dictionaries, without and with protection."""

import random
from dataclasses import replace

import pytest
from upsets import Struck

from lately.golden import Operation, WindowDictionary, WindowDictionarySpec, any_preset
from lately.golden.hash.keys import check_keys
from lately.hdl.build import unit_profile
from lately.hdl.dictionary.dictionary_figures import swept_per_row
from lately.hdl.latencies import PROTECTIONS, VOTES

SEED = 1959
NONE, QUERY, INSERT, CHECK, REMOVE = (
    Operation[name] for name in ("NONE", "QUERY", "INSERT", "CHECK_AND_INSERT", "REMOVE")
)

slow = pytest.mark.slow


# A single cell

FEW_ROWS = WindowDictionarySpec(
    window=100, columns=2, rows=2, digest_bits=9, stash=3, moves=None, key_bits=16, seed=2
)
"""The sweep comes twice to each row in a window."""

FORMS = {"still": FEW_ROWS, "ring": replace(FEW_ROWS, moves=64)}
# Except in a long run, a single form is enough.
SHORT = [pytest.param("still", marks=slow), "ring"]
LAP = FEW_ROWS.rows * swept_per_row(FEW_ROWS)
"""Insertions in which the sweep comes to all rows."""


def sharing(spec, count, *, apart=False):
    """Return keys with different digests and the same or neighbouring cells in a column."""
    model = WindowDictionary.from_spec(spec)
    digests, rows = model._digests(check_keys(list(range(64)), model._hash.key_bits))
    keys = {}
    for key in range(64):
        if (rows[key][0] == rows[0][0]) != apart:
            keys.setdefault(int(digests[key]), key)
    return [*keys.values()][:count]


@pytest.mark.parametrize("form", SHORT)
def test_a_lost_entry_is_seen_for_its_window(form):
    async def script(struck):
        bits = unit_profile(struck.spec, protect="parity").cell_bits
        await struck.do([(INSERT, 1)] * 150)
        for key, bit in ((2, 0), (3, bits - 1)):
            cell = await struck.insert(key)
            struck.flip(cell, bit)
            others = [(INSERT, 1), (QUERY, key)] * (struck.spec.window - 1)
            results = await struck.do(others)
            assert all(seen and age == 0 for seen, age in results[1::2])
            await struck.do([(INSERT, 1)] * (2 * LAP + struck.spec.window))
            assert not struck._ctx.get(struck.words[cell[0]][0].data[cell[1]]) & 1
            assert await struck.do([(QUERY, key)]) == [(False, 0)]

    Struck(FORMS[form]).run(script)


@pytest.mark.parametrize("form", SHORT)
def test_upset_is_reported(form):
    spec = FORMS[form]
    model = WindowDictionary.from_spec(spec)
    _, rows = model._digests(check_keys(list(range(64)), model._hash.key_bits))

    async def script(struck):
        upsets = struck.unit.upsets
        column, row = await struck.insert(2)
        struck.flip((column, row), 3)
        elsewhere = next(key for key in range(64) if rows[key][column] != rows[2][column])
        others = [(NONE, elsewhere)] * 12
        for operation, count in ((NONE, 0), (QUERY, 1), (NONE, 1)):
            await struck.do([*others, (operation, 2), *others])
            assert struck._ctx.get(upsets) == count
        await struck.do([(INSERT, elsewhere)] * LAP)
        assert struck._ctx.get(upsets) > 1

    Struck(spec).run(script)


@pytest.mark.parametrize("swept", [True, pytest.param(False, marks=slow)])
def test_lost_entry_is_not_replaced(swept):
    key, *others = sharing(FORMS["ring"], 5)
    # Other operations must not read that cell.
    (elsewhere,) = sharing(FORMS["ring"], 1, apart=True)

    async def script(struck):
        cell = await struck.insert(key)
        struck.flip(cell, struck.spec.timestamp_bits + 1)
        await struck.do([(INSERT, others[0])] * (LAP if swept else 1))
        held = struck.held()[cell[0], 0, cell[1]]
        await struck.do([(INSERT, other) for other in others])
        await struck.do([(NONE, elsewhere)] * 200)
        assert struck.held()[cell[0], 0, cell[1]] == held
        results = await struck.do([(QUERY, each) for each in (key, *others)])
        assert all(seen for seen, _ in results)

    Struck(FORMS["ring"]).run(script)


@pytest.mark.slow
@pytest.mark.parametrize("form", SHORT)
def test_the_sweep_mends_copies(form):
    async def script(struck):
        spec = struck.spec
        column, row = cell = await struck.insert(2)
        for copy in range(VOTES):
            await struck.do([(INSERT, 2)])
            struck.flip(cell, copy * spec.cell_bits // VOTES, copy=copy)
            for age in range(1, LAP + 1):
                results = await struck.do([(INSERT, 1), *[(QUERY, 2)] * 14])
                assert results[1:] == [(True, age)] * 14
            assert len({struck.held()[column, each, row] for each in range(VOTES)}) == 1
        await struck.do([(REMOVE, 2)])
        for bit in (0, spec.cell_bits - 1):
            upsets = struck._ctx.get(struck.unit.upsets)
            struck.flip(cell, bit, copy=1)
            await struck.do([(INSERT, 1)] * LAP)
            assert len({struck.held()[column, each, row] for each in range(VOTES)}) == 1
            assert struck._ctx.get(struck.unit.upsets) == upsets + 1

    Struck(FORMS[form], "tmr").run(script)


@pytest.mark.slow
def test_no_entry_that_moves_becomes_unknown():
    choose = random.Random(SEED)
    spec = replace(FORMS["ring"], rows=4, digest_bits=10, stash=6, window=16)

    def cells(struck, bit):
        return {(column, row) for (column, _, row), word in struck.held().items()
                if word >> bit & 1}  # fmt: skip

    async def script(struck):
        await struck.do([(INSERT, key) for key in range(16)])
        hit, unknown, renewed = set(), set(), 0
        for _ in range(3):
            cell = choose.choice(sorted(cells(struck, 0) - unknown - hit))
            struck.flip(cell, 3)
            hit.add(cell)
            for _ in range(40):
                await struck.do([(INSERT, choose.randrange(64))])
                now = cells(struck, spec.cell_bits)
                assert now - unknown <= hit
                renewed += len(now - unknown)
                hit, unknown = hit - now, now
        assert renewed

    print("seed", SEED)
    Struck(spec).run(script)


@pytest.mark.slow
@pytest.mark.parametrize("form", SHORT)
def test_the_sweep_erases_a_cell_whose_copies_differ(form):
    async def script(struck):
        column, row = cell = await struck.insert(2)
        await struck.do([(INSERT, 1)] * (struck.spec.window - LAP))
        for copy in range(LAP):
            # The sweep repairs the cell until it expires.
            struck.flip(cell, 3, copy=copy % VOTES)
            await struck.do([(INSERT, 1)])
        assert await struck.do([(QUERY, 2)]) == [(False, 0)]
        assert struck.held()[column, 0, row] & 1
        for _ in range(LAP):
            await struck.do([(INSERT, 1)])
        assert not any(struck.held()[column, copy, row] & 1 for copy in range(VOTES))

    Struck(FORMS[form], "tmr").run(script)


@pytest.mark.parametrize("protect", PROTECTIONS)
@pytest.mark.parametrize("name", ["dictionary-1000", "dictionary-ring-10000"])
def test_profile_knows_the_protection(name, protect):
    plain, profile = (unit_profile(any_preset(name), protect=kind) for kind in ("none", protect))
    each = plain.block_rams // plain.segments
    blocks = {"none": each, "parity": 2 if each == 2 else 4, "tmr": 3 * each}[protect]
    assert profile.block_rams == plain.segments * blocks
    assert profile.latency == plain.latency
