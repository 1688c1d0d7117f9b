"""Simulation: test benches, compiled models and trace replay."""

from .replay.compiled import CompiledLanes, CompiledUnit, compiled_unit, replay
from .replay.compiled_dictionary import CompiledDictionary
from .replay.compiled_stamps import CompiledCountedTiming, CompiledTiming
from .toolchain import ToolError

__all__ = [
    "CompiledCountedTiming",
    "CompiledDictionary",
    "CompiledLanes",
    "CompiledTiming",
    "CompiledUnit",
    "ToolError",
    "compiled_unit",
    "replay",
]
