"""Defects of rings of columns that streams of operations have to find."""

from lately.hdl.dictionary.ring_column import RingColumn
from lately.hdl.dictionary.ring_core import RingCore
from lately.hdl.dictionary.ring_stash import RingStash

DEFECTS = [
    # An operation that is under way when the exchange happens.
    (RingColumn, "spoiled | (self._wants & (reads | leaves))", "spoiled"),
    (RingColumn, "(reads | leaves)", "reads"),
    (RingColumn, "may & ~reads & ~self.write", "may & ~self.write"),
    (RingColumn, "may & ~reads & ~self.write", "may & ~reads"),
    (RingColumn, "self.granted & ~fails &", "self.granted &"),
    # One that goes to the stash at the same time.
    (RingColumn, "& ~self.write & ~self.pushes", "& ~self.write"),
    # What has become of the entry in the stash meanwhile.
    (RingColumn, "m, spoiled | (self._wants", "m, 0 | (self._wants"),
    # An entry that one column holds already.
    (RingStash, '(m, self._valid & ~self._holding, "fit")', '(m, self._valid, "fit")'),
    # The sweep and the exchange share a port.
    (RingColumn, "super()._may_start() & ~self._wants", "super()._may_start()"),
    (RingColumn, "(self._wants & ~self._sweeping)", "self._wants"),
    (RingColumn, "self._visits & ~begun & ~self.write", "self._visits & ~begun"),
    # Two columns at a time; the youngest of those that are given up counts.
    (RingCore, "lowest(asks & ~granted)", "asks"),
    (RingCore, "stash.lost & ~(count < stash.lost_distance)", "stash.lost"),
]
"""Components, pieces of their source, and what stands in their place."""
