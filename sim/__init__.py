"""Simulation: test benches, compiled models and trace replay."""

from .replay.compiled import CompiledLanes, CompiledUnit, compiled_unit, replay
from .toolchain import ToolError

__all__ = ["CompiledLanes", "CompiledUnit", "ToolError", "compiled_unit", "replay"]
