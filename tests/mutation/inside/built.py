"""Builds hardware and tells which functions took part and what came out; proves what differs.

Command line: what is built ('units' or 'proofs'), a file with the names of those that are to be
built and the digests that they had (all if it is 'all'), and the file to write.
"""

import hashlib
import json
import sys
import time
import warnings
from contextlib import suppress
from itertools import chain, product
from pathlib import Path

from amaranth.back import rtlil
from watched import taken

from lately.golden import SpecificationError, any_preset
from lately.golden.spec import GEBFSpec
from lately.golden.spec.all_presets import ALL_PRESETS
from lately.hdl.build import filter_unit
from lately.hdl.bus.controlled import BUSES, ControlledUnit
from lately.hdl.bus.flat import AxisUnit
from lately.hdl.latencies import PROTECTIONS
from lately.hdl.packets.axis_beats import WIDTHS
from lately.hdl.packets.deduplicator import Deduplicator
from lately.hdl.rtlil import units
from lately.sim.proofs.catalogue import PROOFS
from lately.sim.proofs.formal import run_proof

SMALL = "tiny"
"""Part of the names of the presets whose units are compared."""

FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
"""Filter of the deduplicators that are compared beside them."""


def controlled(bus):
    """Return a small unit with flat ports and registers behind a bus."""
    spec = any_preset("siphash-tiny")
    unit = filter_unit(spec, tag_bits=8)
    return AxisUnit(ControlledUnit(unit, spec=spec, bus=bus, version=(0, 0, 0), status_bits=7))


def watched_units():
    """Yield the names of small units, and the units with memories and state looked after."""
    small = {name: spec for name, spec in ALL_PRESETS.items() if SMALL in name}
    for (name, spec), protect in product(small.items(), PROTECTIONS):
        # Units that watch their state, and units that do not.
        how = {"protect": protect, "check": protect == "parity"}
        with suppress(SpecificationError):
            yield f"{name}.{protect}", filter_unit(spec, **how)


def hardware(kind):
    """Yield a name and what returns a component."""
    if kind == "units":
        for name, unit in chain(units(), watched_units()):
            if SMALL in name:
                yield name, lambda unit=unit: unit
        for width in WIDTHS:
            yield f"frames-{width}", lambda width=width: Deduplicator(FRAMES, width=width)
        for bus in BUSES:
            yield bus, lambda bus=bus: controlled(bus)
    else:
        for proof in PROOFS:
            yield proof.name, proof.build


def digest(build):
    """Return the digest of what is built, or the error on the way."""
    try:
        return hashlib.sha256(rtlil.convert(build(), emit_src=False).encode()).hexdigest()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(kind, known, told):
    warnings.simplefilter("ignore")
    known = None if known == "all" else json.loads(Path(known).read_text())
    found = {}
    try:
        for name, build in hardware(kind):
            if known is None or name in known:
                taken()
                started = time.monotonic()
                found[name] = {"digest": digest(build)}
                found[name]["seconds"] = time.monotonic() - started
                found[name]["calls"] = sorted(taken())
    except Exception as error:
        found["error"] = {"digest": f"{type(error).__name__}: {error}"}
    failed = None
    if known is not None and kind == "proofs":
        changed = {name for name, one in found.items() if one["digest"] != known.get(name)}
        failed = next(filter(None, map(failure, (p for p in PROOFS if p.name in changed))), None)
    Path(told).write_text(json.dumps({"built": found, "failed": failed}))


def failure(proof):
    """Return the name of a proof that fails."""
    try:
        return None if run_proof(proof).proven else proof.name
    except Exception:
        return proof.name


if __name__ == "__main__":
    main(*sys.argv[1:])
