"""Defects of dictionaries with moves that streams of operations have to find."""

from lately.hdl.dictionary import column, core, stash
from lately.hdl.dictionary.moves import Moves, Offers
from lately.hdl.dictionary.sweep import Sweep
from lately.hdl.dictionary.verdict import Verdict
from lately.hdl.dictionary.visitor import Visitor

HOMES = {Visitor: column, Sweep: column, Offers: stash, Moves: core, Verdict: core}
"""Modules that build a component."""

DEFECTS = [
    # An operation that is in flight when the exchange happens.
    (Visitor, "spoiled | (self.hold & (reads | leaves))", "spoiled"),
    (Visitor, "(reads | leaves)", "reads"),
    (Visitor, "may & ~reads & ~self.busy", "may & ~self.busy"),
    (Visitor, "may & ~reads & ~self.busy", "may & ~reads"),
    (Visitor, "visit.granted & ~fails &", "visit.granted &"),
    # An operation that goes to the stash at the same time.
    (Visitor, "& ~self.busy & ~visit.pushes", "& ~self.busy"),
    # A place of the stash that has changed since its entry arrived.
    (Visitor, "spoiled | (self.hold", "0 | (self.hold"),
    # An entry that one column holds already.
    (Offers, '(m, self.valid & ~self.held, "fit")', '(m, self.valid, "fit")'),
    # The sweep and the exchange share a port.
    (Sweep, "ready & ~self.busy & ~self.hold", "ready & ~self.busy"),
    (Visitor, "(self.hold & ~self.swept)", "self.hold"),
    (Visitor, "self.visits & ~begun & ~self.busy", "self.visits & ~begun"),
    # Two columns at a time; the youngest of the entries that are given up counts.
    (Moves, "lowest(requests & ~granted)", "requests"),
    (Verdict, "1 if self._ordered else ~(count < self.lost_distance)", "1"),
]
"""Components, pieces of their source, and the text in their place."""
