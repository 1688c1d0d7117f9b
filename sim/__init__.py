"""Simulation: test benches, formal proofs, compiled models and trace replay."""

from .replay.compiled import CompiledUnit, compiled_unit, replay
from .toolchain import ToolError

__all__ = [
    "CompiledUnit",
    "ToolError",
    "compiled_unit",
    "replay",
]
