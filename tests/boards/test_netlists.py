"""Changes to netlists: modes of ECP5 block RAMs, and carry inputs of Nexus devices."""

import pytest

from lately.boards.flow.netlists import free_carry_inputs, use_normal_mode

RBW = "READBEFOREWRITE"
ENABLE, WORD, OTHER = 2, 3, 4


def netlist(enable, word, *, outside=()):
    """Return a netlist of one block RAM, whose bit 0 on port A is read by a table."""
    block = {
        "type": "DP16KD",
        "parameters": {"WRITEMODE_A": RBW, "WRITEMODE_B": "NORMAL"},
        "port_directions": {"WEA": "input", "DOA0": "output"},
        "connections": {"WEA": [enable], "DOA0": [word]},
    }
    table = {
        "type": "LUT4",
        "parameters": {},
        "port_directions": {"A": "input", "Z": "output"},
        "connections": {"A": [WORD], "Z": [OTHER]},
    }
    return {"top": {"cells": {"block": block, "table": table}, "ports": {"o": {"bits": outside}}}}


@pytest.mark.parametrize(
    ("enable", "word", "outside", "mode"),
    [
        (ENABLE, WORD, [], RBW),
        (ENABLE, 5, [5], RBW),
        ("1", WORD, [], RBW),
        ("0", WORD, [], "NORMAL"),
        (ENABLE, 5, [], "NORMAL"),
    ],
    ids=["both", "both-outside", "both-always", "read only", "write only"],
)
def test_mode_stays_where_it_matters(enable, word, outside, mode):
    modules = netlist(enable, word, outside=outside)
    assert use_normal_mode(modules) == (mode == "NORMAL")
    assert modules["top"]["cells"]["block"]["parameters"]["WRITEMODE_A"] == mode


def test_nothing_to_change():
    modules = netlist(ENABLE, WORD)
    modules["top"]["cells"]["block"]["parameters"]["WRITEMODE_A"] = "NORMAL"
    assert not use_normal_mode(modules)


@pytest.mark.parametrize(
    ("init", "carry", "left"),
    [
        ("0x00AA", ["0"], []),
        ("0x00AA", [WORD], []),
        ("0x00AA", [OTHER], [OTHER]),
        ("0x00AA", [], []),
        ("0x96AA", ["0"], ["0"]),
    ],
    ids=["constant", "cell", "chain", "none", "sum"],
)
def test_only_constant_carry_inputs_of_first_cells_are_freed(init, carry, left):
    cells = {
        "zero": {"type": "VLO", "connections": {"Z": [WORD]}},
        "carry": {
            "type": "CCU2",
            "parameters": {"INIT1": init},
            "connections": {"CIN": list(carry), "COUT": [5]},
        },
    }
    changed = free_carry_inputs({"top": {"cells": cells}})
    assert (changed, cells["carry"]["connections"]["CIN"]) == (carry != left, left)
