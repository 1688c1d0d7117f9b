"""Ctrl-C is heard by the process that asked for calls, and by none of those that make them."""

import subprocess
import sys
from pathlib import Path

HELPERS = Path(__file__).parents[1] / "helpers"

PROGRAM = f"""
import sys
sys.path.insert(0, {str(HELPERS)!r})
from signal_masks import hears_interrupts
from campaigns.workers.calls import Call, run

if __name__ == "__main__":
    calls = [Call(name, hears_interrupts, None) for name in "abcd"]
    run(calls, lambda call, outcome: print(outcome), jobs=2)
    print(hears_interrupts(None))
"""


def test_workers_hear_no_interrupt():
    """In a process of its own, as only the first cluster of a process starts all it needs."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split() == ["False"] * 4 + ["True"]
