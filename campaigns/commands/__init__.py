"""Commands of campaigns."""

from pathlib import Path

from lately.cli.tables import add_tables

add_tables(
    Path(__file__).parents[1] / "tables.toml",
    # Rates of the filters of other libraries.
    others=lambda runs: [
        run["keys_per_second"] for run in runs if run["runs"] not in ("compiled", "numpy")
    ],
)
