"""Pages plan the same filters: each is planned once."""

import importlib

import pytest


@pytest.fixture(autouse=True, scope="package")
def _planned_once():
    plans = importlib.import_module("lately.planner.plans")
    plan, known = plans.plan, {}

    def planned(*arguments, **options):
        asked = repr((arguments, options))
        if asked not in known:
            known[asked] = plan(*arguments, **options)
        return known[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "plan", planned)
        yield
