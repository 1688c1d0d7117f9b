"""Simulation: test benches, compiled models and trace replay."""

from .compiled import CompiledUnit, replay
from .compiled_lanes import CompiledLanes, compiled_unit
from .toolchain import ToolError

__all__ = ["CompiledLanes", "CompiledUnit", "ToolError", "compiled_unit", "replay"]
