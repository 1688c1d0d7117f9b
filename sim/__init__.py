"""Simulation: test benches, compiled models and trace replay."""

from .replay.compiled import CompiledLanes, CompiledUnit, compiled_unit, replay
from .replay.compiled_dictionary import CompiledDictionary
from .toolchain import ToolError

__all__ = [
    "CompiledDictionary",
    "CompiledLanes",
    "CompiledUnit",
    "ToolError",
    "compiled_unit",
    "replay",
]
