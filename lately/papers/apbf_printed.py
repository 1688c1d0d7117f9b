"""Printed figures of the APBF paper."""

from .printed import Table

PAPER = "Age-Partitioned Bloom Filters"
"""Title of the paper."""

TABLES = {
    1: Table("apbf_table1_bloom.csv", ("k",)),
    2: Table("apbf_table2_apbf.csv", ("k", "l")),
    3: Table("apbf_table3_apbbf.csv", ("k", "l", "B", "b")),
    4: Table("apbf_table4_swamp.csv", ("k", "l", "B", "b")),
}
"""By their number in the paper."""
