"""Lines beside awk, sort and a set: the stream, the counts, and the table of the page."""

import json
from pathlib import Path

import pytest

from campaigns import speed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", ["lately uniq", "mawk '!seen[$0]++'"])
def test_counts(program):
    point = {"program": program, "lines": 20_000, "seed": 3}
    made = b"".join(speed.made_lines(20_000, 3)).splitlines()
    result = speed.run_lines(point)
    assert len(made) == 20_000
    assert result["distinct"] == len(set(made)) == result["kept"]
    assert result["lost"] == 0
    assert min(result["cpu_seconds"], result["memory_bytes"]) > 0


def test_table_of_the_page_is_as_measured():
    rows = (ROOT / "docs/uniq.md").read_text("utf-8").splitlines()
    for text in (ROOT / "results/lines.jsonl").read_text("utf-8").splitlines():
        record = json.loads(text)
        name, result = record["point"]["program"], record["result"]
        (row,) = (line for line in rows if line.startswith("|") and name in line)
        cells = [cell.strip() for cell in row.split("|")[2:5]]
        assert cells[0] == f"{result['cpu_seconds']:.1f}"
        assert cells[1] == f"{result['memory_bytes'] / 1e6:.0f}"
        assert cells[2].split()[0] == str(result["lost"])
