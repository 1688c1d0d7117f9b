"""Select the rows of a table whose keys were not seen recently, for pandas, polars and Arrow.

Pass the same filter with the next table: the rows of that table are then also compared with the
rows of this one.
"""


def new_rows(frame, column, filter):
    """Return the rows of a data frame or Arrow table whose keys were not seen in the window."""
    keys = frame[column]
    seen = filter.check_and_insert(keys)
    if hasattr(frame, "filter") and not hasattr(frame, "loc"):
        # polars and Arrow need a mask; both accept a list.
        return frame.filter((~seen).tolist())
    return frame[~seen]
