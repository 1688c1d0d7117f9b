"""Any sequence of public calls of the models that only the papers need; see `filter_machine`."""

import filter_machine
import pytest
from every_model import MODELS

from papers import models


@pytest.mark.parametrize("name", sorted({*MODELS} & {*models.__all__}))
def test_any_sequence_of_calls(name, tmp_path):
    filter_machine.run(name, tmp_path)
