"""Simulation: test benches, compiled models and trace replay."""

from .compiled import CompiledUnit, replay
from .toolchain import ToolError

__all__ = ["CompiledUnit", "ToolError", "replay"]
