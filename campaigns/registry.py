"""All campaigns, by name."""

from .attacks import ATTACK
from .golden_speed import GOLDEN, STREAM
from .hardware import HARDWARE
from .lines import LINES
from .promise import PLANNER
from .rolling import ROLLING
from .soak import SOAK
from .speed import DEDUP, LANES, REPLAY
from .upsets import UPSETS

CAMPAIGNS = {
    one.name: one
    for one in (
        HARDWARE, LANES, SOAK, UPSETS, ATTACK, GOLDEN, STREAM, REPLAY, DEDUP, PLANNER,
        LINES, ROLLING,
    )
}  # fmt: skip
"""Campaigns by name."""
