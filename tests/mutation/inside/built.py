"""Build small units and all proofs, and compare their netlists; run one proof or one sentence.

The command line is `digests FILE`, which writes the digest of each netlist; `changed FILE`, which
runs the proofs whose netlist has another digest than in the file; `proof NAME`, which searches a
counterexample of at most `formal.SEARCH` cycles; or `unit NAME SENTENCE`. The last line of the
output is the name of the first proof or test that fails, `same` if no netlist differs, or `none`.
"""

import hashlib
import json
import sys
import tempfile
import warnings
from contextlib import suppress
from itertools import chain, product
from pathlib import Path

from amaranth.back import rtlil

from lately.golden import SpecificationError, any_preset
from lately.golden.packets.frame_actions import WIDTHS
from lately.golden.spec import GEBFSpec
from lately.golden.spec.presets import ALL_PRESETS
from lately.hdl.build import filter_unit
from lately.hdl.bus.controlled import BUSES, ControlledUnit
from lately.hdl.bus.flat import AxisUnit
from lately.hdl.latencies import PROTECTIONS
from lately.hdl.packets.deduplicator import Deduplicator
from lately.sim.bench.runner import run_filter_bench
from lately.sim.bench.runs import SEED, UNITS
from lately.sim.proofs.catalogue import PROOFS
from lately.sim.proofs.formal import run_proof

SMALL = "tiny"
"""Part of the names of the presets whose units are compared."""

FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
"""Filter of the deduplicators that are compared."""


def hardware():
    """Yield the names of small units, and the units: plain, protected and watching their state."""
    small = {name: spec for name, spec in ALL_PRESETS.items() if SMALL in name}
    for (name, spec), protect in product(small.items(), PROTECTIONS):
        with suppress(SpecificationError):
            watch = protect == "parity"
            yield f"{name}.{protect}", filter_unit(spec, protect=protect, self_check=watch)
    for width in WIDTHS:
        yield f"frames-{width}", Deduplicator(FRAMES, width=width)
    spec = any_preset("siphash-tiny")
    for bus in BUSES:
        unit = ControlledUnit(
            filter_unit(spec, tag_bits=8), spec=spec, bus=bus, version=(0, 0, 0), status_bits=7
        )
        yield bus, AxisUnit(unit)


def digests():
    """Return the digests of all netlists by their names; a proof is a callable."""
    digests_by_name = {}
    proofs = ((proof.name, proof.build()) for proof in PROOFS)
    for name, component in chain(hardware(), proofs):
        netlist = rtlil.convert(component, emit_src=False)
        digests_by_name[name] = hashlib.sha256(netlist.encode()).hexdigest()
    return digests_by_name


def failing(proofs):
    """Return the name of the first proof that fails, or `none`; an unknown one does not fail."""
    return next((p.name for p in proofs if run_proof(p).status == "failed"), "none")


def failing_sentence(name, sentence):
    """Return the first test of a sentence that a unit of the plan fails under Icarus, or `none`."""
    unit = UNITS[name]
    memory = "portable" if unit.spec.lanes > 1 else "ecp5"
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_filter_bench(
            unit.spec, "icarus", Path(folder), seed=SEED, testcase=sentence, memory=memory,
            **unit.options,
        )  # fmt: skip
    if not outcomes:
        raise ValueError(f"{sentence}: matches no test of {name}")
    return next((test for test, passed in outcomes.items() if not passed), "none")


def main(command, argument):
    warnings.simplefilter("ignore")
    if command == "unit":
        return failing_sentence(*argument.split(maxsplit=1))
    if command == "proof":
        (proof,) = (proof for proof in PROOFS if proof.name == argument)
        return failing([proof.search()])
    digests_by_name = digests()
    if command == "digests":
        Path(argument).write_text(json.dumps(digests_by_name))
        return "none"
    known = json.loads(Path(argument).read_text())
    changed = {name for name, digest in known.items() if digests_by_name[name] != digest}
    return failing(proof for proof in PROOFS if proof.name in changed) if changed else "same"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
