"""Registers of units that watch themselves."""

WATCHED = (
    r"(shard\d\.)?core\.store\.ring\.(spare|write)|free|"
    r"((collector\.)?credits|under_way|waiting)\.left|"
    r"((shard\d|collector)\.)?queue\.(after|read|read_down|"
    r"((verdicts|tags|statuses|apart)_)?written)|"
    r"dispatcher\.(slot|entries\d)|collector\.newest|shard\d\.(done|read|written)|"
    r"distributor\.(left\d|more|read|(beats|states)_written)"
)
"""Those of which every upset is told."""
