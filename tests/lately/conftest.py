# amaranth: UnusedElaboratable=no
"""A simulated board of the filter `spec`, which each module of tests has."""

import pytest
from board_commands import RATES

from lately.boards.link.link import FilterLink
from lately.host import Board
from lately.sim.board import SimulatedBoard, board_model


@pytest.fixture(scope="module")
def model(spec):
    return board_model(FilterLink(spec, **RATES), **RATES)


@pytest.fixture
def board(model):
    with SimulatedBoard(model) as started:
        yield started


@pytest.fixture
def host(board, spec):
    with Board(board.port, baud=RATES["baud"], timeout=10.0, spec=spec) as opened:
        yield opened
