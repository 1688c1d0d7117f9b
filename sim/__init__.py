"""Simulation: test benches, compiled models and trace replay."""

from .replay.compiled import CompiledUnit, replay
from .replay.compiled_lanes import CompiledLanes, compiled_unit
from .toolchain import ToolError

__all__ = ["CompiledLanes", "CompiledUnit", "ToolError", "compiled_unit", "replay"]
