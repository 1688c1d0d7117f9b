"""Tables of thresholds against the decisions that they stand for."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import daily
from hypothesis import given
from hypothesis import strategies as st

from lately.golden import (
    DecisionTable,
    InferentialFilter,
    Operation,
    PartitionedTimingFilter,
    QueryClass,
)
from lately.golden.timestamp.distinct import distinct_function
from lately.golden.timestamp.inferential import age_posterior, minimum_penalty
from lately.golden.timestamp.timing import Evidence

SEED = 20261122
UNIVERSE = 20_000
UNIFORM = {"kind": "uniform", "universe": UNIVERSE}
CHANCE = 1 / UNIVERSE
CLASSES = [
    QueryClass(probability=CHANCE, false_positive=false_positive, false_negative=false_negative,
               window=window)
    for false_positive, false_negative, window in [
        (1, 1, None), (1, 5, 2048), (5, 1, 1000), (3, 1, 4096), (1, 10, 700), (2, 3, 3000)
    ]
]  # fmt: skip


def model(*, block=512, **others):
    fields = {"window": 4096, "cells": 16_384, "hashes": 4, "distinct": UNIFORM,
              "probability": CHANCE, "false_positive": 1, "false_negative": 1,
              "recurring": False}  # fmt: skip
    return InferentialFilter(**fields | others, block=block)


def costs(case):
    return {"false_positive": case.false_positive, "false_negative": case.false_negative}


@pytest.mark.parametrize("block", [512, 48, 1])
def test_with_all_digits_the_answers_are_the_filter_s(block):
    print(f"seed {SEED}")
    draw = np.random.default_rng(SEED)
    filter_ = model(block=block)
    bits = (block - 1).bit_length() if block == 512 else block.bit_length() - 1
    table = DecisionTable.of(filter_, CLASSES, bits)
    filter_.insert(draw.integers(0, UNIVERSE, 5000))
    for _ in range(12):
        keys = draw.integers(0, UNIVERSE, 400)
        evidence = filter_.model.inspect(keys)
        # Two insertions share a phase where the block is no power of two.
        exact = block != 48
        for number, case in enumerate(CLASSES):
            expected = filter_.query(keys, case.window, probabilities=CHANCE, **costs(case))
            agree = table.answers(evidence, number) == expected
            assert agree.all() if exact else agree.mean() > 0.95
        classes = draw.integers(0, len(CLASSES), 400)
        mixed = [table.answers(evidence, index) for index in range(len(CLASSES))]
        chosen = np.choose(classes, mixed)
        assert table.answers(evidence, classes).tolist() == chosen.tolist()
        filter_.insert(draw.integers(0, UNIVERSE, 37))


@given(st.data())
def test_decisions_are_thresholds(data):
    """Of any filter, class, age and phase, what the least penalty decides."""
    block = 1 << data.draw(st.integers(0, 5))
    cost, chance = st.floats(0, 20), st.floats(1e-6, 0.2)
    filter_ = model(
        window=data.draw(st.integers(1, 200)), block=block, cells=data.draw(st.integers(2, 400)),
        hashes=data.draw(st.integers(1, 7)), recurring=data.draw(st.booleans()),
        distinct={"kind": data.draw(st.sampled_from(["uniform", "power-law"])), "universe": 500},
    )  # fmt: skip
    case = QueryClass(
        probability=data.draw(chance), false_positive=data.draw(cost),
        false_negative=data.draw(cost), window=data.draw(st.integers(1, filter_.window)),
    )  # fmt: skip
    table = DecisionTable.of(filter_, [case], block.bit_length() - 1)
    draw = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    age = draw.integers(-1, table.thresholds.shape[1] - 1, 300)
    filled = np.where(age == 0, draw.integers(min(1, block - 1), block, 300),
                      draw.integers(0, block, 300))  # fmt: skip
    age[(age == 0) & (filled == 0)] = -1
    cells = draw.integers(1, filter_.hashes + 1, 300)
    cells[age == 0] = filter_.hashes
    evidence = Evidence(age, cells, np.full(300, filter_.hashes), filled, np.full(300, 1 << 40))
    posterior = age_posterior(
        evidence, case.probability, model=filter_.model, recurring=filter_.recurring,
        distinct=distinct_function(filter_.distinct),
    ).within(case.window)  # fmt: skip
    assert table.answers(evidence).tolist() == minimum_penalty(posterior, **costs(case)).tolist()


@pytest.mark.parametrize("kind", daily(1, ["uniform", "power-law"]))
def test_four_digits_cost_half_a_percent(kind):
    """Of the expected penalty, mean of all classes, on streams as the paper has them."""
    print(f"seed {SEED}")
    draw = np.random.default_rng(SEED)
    chances = 1 / np.arange(1, UNIVERSE + 1) if kind == "power-law" else np.ones(UNIVERSE)
    chances /= chances.sum()
    filter_ = model(distinct={"kind": kind, "universe": UNIVERSE})
    digits = (0, 2, 4, 6)
    tables = [DecisionTable.of(filter_, CLASSES, bits) for bits in digits]
    filter_.insert(draw.choice(UNIVERSE, 30_000, p=chances))
    more = np.zeros((len(digits), len(CLASSES)))
    minimum = np.zeros(len(CLASSES))
    for _ in range(150):
        keys = draw.choice(UNIVERSE, 300, p=chances)
        evidence = filter_.model.inspect(keys)
        for number, case in enumerate(CLASSES):
            posterior = filter_.posterior(keys, case.window, probabilities=CHANCE)
            wrong = case.false_positive * (1 - posterior), case.false_negative * posterior
            minimum[number] += np.minimum(*wrong).sum()
            for at, table in enumerate(tables):
                more[at, number] += np.where(table.answers(evidence, number), *wrong).sum()
        filter_.insert(draw.choice(UNIVERSE, 131, p=chances))
    loss = (more / minimum - 1).mean(axis=1)
    print(kind, *(f"{bits} digits {each:.3%}" for bits, each in zip(digits, loss, strict=True)))
    assert 0 <= loss[3] <= loss[2] <= 0.005 < loss[1] < loss[0]


def test_verdicts_in_parts_are_looked_up_as_they_are():
    """Within 0.5 % of the least expected penalty, as parts differ little from shared cells."""
    print(f"seed {SEED}")
    draw = np.random.default_rng(SEED)
    parts = PartitionedTimingFilter(window=4096, block=512, cells=4096, hashes=4)
    table = DecisionTable.of(model(), CLASSES, 4)
    parts.insert(draw.integers(0, UNIVERSE, 30_100))
    verdicts = parts.perform(np.full(4000, Operation.QUERY), draw.integers(0, UNIVERSE, 4000))
    assert verdicts.age.max() == table.thresholds.shape[1] - 1 == parts.expired_age
    every, filled = np.full(4000, 4), np.full(4000, parts.insertions % 512)
    shown = Evidence(verdicts.age, verdicts.oldest, every, filled, every + (1 << 40))
    marked = Evidence(np.where(verdicts.age == parts.expired_age, -1, verdicts.age), *(
        getattr(shown, name) for name in ("oldest", "touched", "filled", "insertions")
    ))  # fmt: skip
    for number, case in enumerate(CLASSES):
        answers = table.answers(shown, number)
        assert answers.tolist() == table.answers(marked, number).tolist()
        posterior = age_posterior(
            marked, CHANCE, model=replaced(parts, hashes=1), distinct=distinct_function(UNIFORM)
        ).within(case.window or 4096)
        wrong = case.false_positive * (1 - posterior), case.false_negative * posterior
        assert np.where(answers, *wrong).sum() <= 1.005 * np.minimum(*wrong).sum()


def replaced(filter_, **values):
    """Parameters of a filter, as `age_posterior` reads them, of which some are others."""
    names = ("window", "block", "cells", "hashes")
    return SimpleNamespace(**{name: getattr(filter_, name) for name in names} | values)


@pytest.mark.parametrize(("false_positive", "false_negative", "expired", "current"), [
    (1, 0, 5, 5), (0, 1, 1, 1), (1, 1, 5, 2)
])  # fmt: skip
def test_thresholds_at_the_ends(false_positive, false_negative, expired, current):
    """Costs of 0 decide alone; otherwise keys are reported while young, not when expired."""
    case = QueryClass(probability=CHANCE, false_positive=false_positive,
                     false_negative=false_negative)  # fmt: skip
    table = DecisionTable.of(model(), [case], 4)
    assert table.thresholds.shape == (1, 4096 // 512 + 2, 16)
    assert set(table.thresholds[0, -1].tolist()) == {expired}
    assert table.thresholds[0, 0, -1] == current
    assert (table.entry_bits, table.storage_bits) == (3, 160 * 3)


def test_threshold_is_the_least_number_of_cells():
    table = DecisionTable.of(model(), CLASSES, 4)
    thresholds = set()
    for number, rows in enumerate(table.thresholds):
        for age, phases in enumerate(rows[:-1]):
            for phase, threshold in enumerate(phases.tolist()):
                thresholds.add(threshold)
                cells = np.arange(1, 5)
                evidence = Evidence(
                    np.full(4, age), cells, cells, np.full(4, phase * 32), np.full(4, 1 << 40)
                )
                assert table.answers(evidence, number).tolist() == (cells >= threshold).tolist()
    assert thresholds == {1, 2, 3, 4, 5}
