"""All campaigns, by name."""

from .attacks import ATTACK
from .frames import FRAMES
from .golden_speed import GOLDEN, ROLLING, STREAM
from .guarantee import PLANNER
from .hardware import HARDWARE
from .soak import SOAK
from .speed import DEDUP, LANES, LINES
from .upsets import UPSETS

CAMPAIGNS = {
    campaign.name: campaign
    for campaign in (
        HARDWARE, LANES, SOAK, UPSETS, ATTACK, GOLDEN, STREAM, DEDUP, PLANNER, LINES,
        ROLLING, FRAMES,
    )
}  # fmt: skip
