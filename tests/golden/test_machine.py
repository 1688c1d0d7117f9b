"""Any sequence of public calls of any filter, in both forms; see `filter_machine`."""

import filter_machine
import pytest
from every_model import MODELS, model_class
from small_filters import CLASSES

FORMS = [
    f"{name}, {form}" for name in CLASSES for form in ("counted", "in time", "joinable", "keyed")
]
OTHERS = sorted({*MODELS} - {kind.__name__ for kind in CLASSES.values()})
GOLDEN = [name for name in OTHERS if model_class(name).__module__.startswith("lately.golden.")]


@pytest.mark.parametrize("name", [*FORMS, *GOLDEN])
def test_any_sequence_of_calls(name, tmp_path):
    filter_machine.run(name, tmp_path)
