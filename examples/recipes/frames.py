"""Rows of a table whose key was not seen lately, for pandas, polars and Arrow.

The filter outlives the table: the next table, of the next hour, is compared with this one.
"""


def new_rows(frame, column, filter):
    """Return the rows of a frame or an Arrow table whose key is new in the window."""
    keys = frame[column]
    seen = filter.check_and_insert(keys)
    if hasattr(frame, "filter") and not hasattr(frame, "loc"):
        # polars and Arrow take a mask; a list is a mask for both.
        return frame.filter((~seen).tolist())
    return frame[~seen]
