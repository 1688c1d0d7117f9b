"""All studies: their names, their points, and the data of their papers."""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

import papers
from papers.registry import STUDIES
from papers.studies.paper import Paper

FOLDER = Path(papers.__file__).parent


def test_studies_have_different_names():
    names = [study.name for study in STUDIES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    titles = [study.about for study in STUDIES]
    assert len(set(titles)) == len(titles)


def test_points_differ_and_json_can_hold_them():
    for study in STUDIES:
        for quick in (False, True):
            points = study.points(quick)
            assert points == json.loads(json.dumps(points))
            assert points
            assert len({json.dumps(point) for point in points}) == len(points)
        assert len(study.points()) >= len(points)


@pytest.mark.parametrize("name", ["apbf", "gebf", "time_limited", "inferential", "cuckoo"])
def test_data_of_a_paper_are_used(name):
    data = Paper(name).data
    titles = {study.name: study.about for study in STUDIES}
    assert {key: about["title"] for key, about in data["studies"].items()}.items() <= titles.items()
    used = [note for about in data["studies"].values() for note in about["notes"]]
    assert set(used) == set(data["notes"])
    values = defaultdict(int, z=0.0)
    for key, about in data["charts"].items():
        texts = [about.get("name", key), about["title"], about["x"], about["y"]]
        assert all(text.format_map(values) for text in texts)
    source = "".join(path.read_text("utf-8") for path in FOLDER.glob(f"{name}*.py"))
    parts = r'"{}"|f"{}-\{{'
    for finding in data["findings"]:
        named = [finding, finding.partition("-")[0]]
        assert re.search(parts.format(*map(re.escape, named)), source), finding
