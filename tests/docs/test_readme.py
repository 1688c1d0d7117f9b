"""README.md prints what its examples print."""

import make_readme
import pytest

TEXT = make_readme.README.read_text("utf-8")


@pytest.mark.parametrize("name", make_readme.examples(TEXT))
def test_example_prints_what_it_says(name):
    source = make_readme.examples(TEXT)[name]
    assert make_readme.printed(TEXT)[name] == make_readme.example_output(source)
    assert len(source.splitlines()) <= 11


def test_every_block_is_filled():
    plans = {name for name in make_readme.COMMANDS if name.startswith("plan_")}
    blocks = {"demo", "test", "golden", "speed", "hardware", "synth"}
    assert set(make_readme.printed(TEXT)) == blocks | plans


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
    command = make_readme.COMMANDS[name]
    assert make_readme.printed(TEXT)[name] == make_readme.command_output(command)
