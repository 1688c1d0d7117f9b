# amaranth: UnusedElaboratable=no
"""A simulated board of the filter `spec`, which each module of tests has."""

import pytest
from board_commands import RATES

from lately.boards.link.link import Link
from lately.host import Host
from lately.sim.board import SimulatedBoard, board_model


@pytest.fixture(scope="module")
def model(spec):
    return board_model(Link(spec, **RATES), **RATES)


@pytest.fixture
def board(model):
    with SimulatedBoard(model) as started:
        yield started


@pytest.fixture
def host(board, spec):
    with Host(board.port, baud=RATES["baud"], timeout=10.0, spec=spec) as opened:
        yield opened
