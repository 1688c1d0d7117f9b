"""Progress where somebody can see it, and where nobody can."""

from types import SimpleNamespace

import pytest

from lately.cli import progress


@pytest.fixture(params=[False, True], ids=["unseen", "seen"])
def terminal(request, monkeypatch, capsys):
    """Standard error as a terminal, or not: says whether a text was shown just where it is one."""
    monkeypatch.setattr(progress, "watched", lambda: request.param)
    monkeypatch.setenv("FORCE_COLOR", "1")  # So rich takes it for a terminal.
    return lambda text: (text in capsys.readouterr().err) == request.param


def test_stage_bar(terminal):
    with progress.stage_bar("synthesis") as show:
        show("routing", 0.5)
    assert terminal("routing")


def test_replay_bar(terminal):
    with progress.replay_bar("Starting") as show:
        show(SimpleNamespace(operations=10), None)
        show(SimpleNamespace(operations=2000), 0.5)
    assert terminal("2,000 operations")


def test_parallel_bar(terminal):
    with progress.parallel_bar("Reading", "runs") as show:
        show(0, 2, {"one": ("start", 0.0), "two": ("start", 0.0)})
        show(1, 2, {"two": ("routing", 0.5)})
    assert terminal("1 of 2 runs")
