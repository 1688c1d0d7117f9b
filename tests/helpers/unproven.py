"""Plugin of pytest: proofs are built and not run, and count as failed.

So tests whose proofs take long tell at once whether their defects can be made still.
"""

from types import SimpleNamespace


def _build(proof):
    proof.build()
    return SimpleNamespace(status="failed", proven=False, depth=0, seconds=0.0)


def pytest_collection_modifyitems(items):
    """Have the modules of the tests call what builds alone."""
    for module in {item.module for item in items}:
        if hasattr(module, "run_proof"):
            module.run_proof = _build
