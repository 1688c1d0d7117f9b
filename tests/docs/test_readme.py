"""README.md prints what its examples print."""

import pytest
from pages import readme
from pages.blocks import content

TEXT = readme.README.read_text("utf-8")


@pytest.mark.parametrize("name", readme.examples(TEXT))
def test_example_prints_what_it_says(name):
    source = readme.examples(TEXT)[name]
    assert content(TEXT)[name] == readme.example_output(source)
    assert len(source.splitlines()) <= 11


def test_every_block_is_filled():
    assert set(content(TEXT)) == {*readme.examples(TEXT), *readme.COMMANDS, *readme.LONG}
    assert all(content(TEXT).values())


@pytest.mark.parametrize(
    "name",
    [
        "plan_ice40",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("plan_million", "plan_fits", "plan_span", "plan_slack")
        ),
    ],
)
def test_plan_prints_what_it_says(name):
    assert content(TEXT)[name] == readme.command_output(readme.COMMANDS[name])
