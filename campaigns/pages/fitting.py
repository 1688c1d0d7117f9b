"""Units that are synthesised, and what is fitted to the counts of their cells."""

import json
from concurrent.futures import ProcessPoolExecutor, as_completed

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.optimize import linprog

from lately.boards.flow.devices import device
from lately.boards.flow.synthesis import count_unit

from ..run_identity import identity, synthesis_flow
from .blocks import RESULTS, load, save

ERRORS = Console(stderr=True)

# Units counted at a time.
JOBS = 2


def measure(counts, wanted_units):
    """Count the cells of units, kept in a file named `counts`; its rows of others are dropped."""
    wanted = {}
    for name, spec in wanted_units:
        rtlil = identity(spec, device(name), seed=1).rtlil
        row = {"spec": spec.to_dict(), "device": name, "rtlil": rtlil}
        row["flow"] = synthesis_flow(device(name))
        wanted[json.dumps(row)] = row, spec
    known = load(counts) if (RESULTS / counts).exists() else []
    rows = {key: row for row in known if (key := json.dumps(_identity(row))) in wanted}
    with ProcessPoolExecutor(JOBS) as pool:
        done = {
            pool.submit(count_unit, spec, device=device(row["device"])): key
            for key, (row, spec) in wanted.items()
            if key not in rows
        }
        for future in track(as_completed(done), "Counting units", len(done), console=ERRORS):
            found, key = future.result(), done[future]
            rows[key] = wanted[key][0] | {"lut": found.lut, "ff": found.ff, "bram": found.bram}
            save(counts, [rows[key] for key in wanted if key in rows])
    return [rows[key] for key in wanted]


def _identity(row):
    return {name: row.get(name) for name in ("spec", "device", "rtlil", "flow")}


def least_error(matrix):
    """Return coefficients of 0 or more whose sums, shape (n,), differ least from 1 at worst."""
    ones = np.ones((len(matrix), 1))
    found = linprog(
        [0] * matrix.shape[1] + [1],
        A_ub=np.block([[matrix, -ones], [-matrix, -ones]]),
        b_ub=np.concatenate([ones, -ones]),
    )
    return found.x[:-1]


def up(error):
    """Round up to a whole percentage."""
    return float(np.ceil(error * 100) / 100)
