"""Criteria of verdicts: each is met, undecided with a wide interval, and missed on both sides."""

import inspect
import math
import re
from functools import partial

import pytest

from papers.studies import criteria, paper
from papers.studies.criteria import (
    DIFFERENCE,
    SHARES,
    Criterion,
    Verdict,
    above,
    approximate,
    around,
    between,
    cut_off,
    digits,
    equal,
    every,
    exactly,
    figure,
    none,
    share,
    student,
    to_digits_of,
)
from papers.studies.paper import Paper

MET, NEAR, UNDECIDED, MISSED = Verdict.MET, Verdict.NEAR, Verdict.UNDECIDED, Verdict.NOT_MET

RULES = {
    "digits": (digits("0.58"), 0.58),
    "figure": (figure("0.58"), 0.58),
    "figure, 0": (figure("0.0000"), 0.0),
    "figure, negative": (figure("-0.58"), -0.58),
    "cut_off": (cut_off("26"), 26.5),
    "approximate": (approximate("32.0", "0.02"), 32.04),
    "exactly": (exactly(12), 12),
    "every": (every(4), 4),
    "none": (none(1e-4), 0.0),
    "equal": (equal(1), 1.0),
    "around": (around(0.001, 0.2, 0.5), 0.0011),
    "between": (between(65, 75), 70),
    "above": (above(10), 100),
}
"""Each rule, and a value that meets it."""


def test_every_rule_is_here():
    made = {
        name
        for name, function in inspect.getmembers(criteria, inspect.isfunction)
        if inspect.signature(function).return_annotation is Criterion
    }
    assert made == {name.split(",")[0] for name in RULES} == criteria.RULES.keys()


@pytest.mark.parametrize("name", RULES)
def test_rule_is_met_missed_on_both_sides_and_undecided(name):
    rule, value = RULES[name]
    assert rule.judge(value) is rule.judge(value, value, value) is MET
    low, high = rule.within
    size = max(abs(low), abs(high), 1e-3)
    for off in (2 * size, 1e3 * size, 1e9 * size):
        assert rule.judge(low - off) is MISSED
        assert rule.judge(high + off) is MISSED
        assert rule.judge(low - off, low - 1.1 * off, low - 0.9 * off) is MISSED
        assert rule.judge(high + off, high + 0.9 * off, high + 1.1 * off) is MISSED
    # A wide interval decides nothing.
    assert rule.judge(value, low, high) is MET
    assert rule.judge(value, math.nextafter(low, -math.inf), high) is UNDECIDED
    assert rule.judge(value, low, math.nextafter(high, math.inf)) is UNDECIDED
    assert rule.judge(value, -1e12, 1e12) is UNDECIDED


@pytest.mark.parametrize(
    ("rule", "value", "ends", "verdict"),
    [
        # Half a unit either way, and one unit.
        (digits("0.2"), 0.25, (), MET),
        (digits("0.3"), 0.25, (), MET),
        (digits("0.58"), 0.585, (), MET),
        (digits("0.58"), 0.5851, (), NEAR),
        (digits("0.58"), 0.595, (), NEAR),
        (digits("0.58"), 0.5951, (), MISSED),
        (digits("0.58"), 0.5649, (), MISSED),
        (digits("1e-5"), 0.000012, (), MET),
        # The interval holds the figure, or the value is the figure in its digits.
        (figure("0.58"), 0.6, (0.57, 0.63), MET),
        (figure("0.58"), 0.6, (0.581, 0.63), MISSED),
        (figure("0.58"), 0.59, (0.581, 0.63), NEAR),
        (figure("0.58"), 0.584, (0.581, 0.59), MET),
        (figure("0.58"), 0.576, (0.57, 0.579), MET),
        (figure("0.58"), 0.574, (0.57, 0.579), NEAR),
        # No error of a tenth is left.
        (figure("0.58"), 0.58, (0.522, 0.638), MET),
        (figure("0.58"), 0.58, (0.5219, 0.638), UNDECIDED),
        (figure("0.58"), 0.58, (0.522, 0.6381), UNDECIDED),
        # Few digits do not excuse it.
        (figure("1"), 1.04, (1.03, 1.05), MET),
        (figure("1"), 1.11, (1.105, 1.12), NEAR),
        (figure("2"), 0.4, (0.39, 0.41), MISSED),
        (figure("0.0000"), 0.00002, (0, 0.00005), MET),
        (figure("0.0000"), 0.00002, (0, 0.00006), UNDECIDED),
        (figure("0.0000"), 0.0002, (0.0001, 0.0003), MISSED),
        # One event is too many, and so are too few trials.
        (none(1e-4), 0.0, (0, 1e-4), MET),
        (none(1e-4), 0.0, (0, 1.1e-4), UNDECIDED),
        (none(1e-4), 1e-9, (1e-10, 1e-8), MISSED),
        (cut_off("26"), 26.0, (), MET),
        (cut_off("26"), math.nextafter(27, 0), (), MET),
        (cut_off("26"), 27.0, (), NEAR),
        (cut_off("26"), 25.0, (), NEAR),
        (cut_off("26"), 24.9, (), MISSED),
        (exactly(12), 13, (), MISSED),
        (every(4), 3, (), NEAR),
        (every(4), 2, (), MISSED),
        (equal(1), 1.02, (0.99, 1.05), MET),
        (equal(1), 1.02, (1.01, 1.03), MISSED),
        (equal(1), 1.02, (0.89, 1.15), UNDECIDED),
        (equal(1, 2), 1.9, (1.8, 2.0), NEAR),
        (equal(1, 2), 2.1, (2.0, 2.2), MISSED),
        (approximate("32.0", "0.02"), 32.6, (), NEAR),
        (approximate("32.0", "0.02"), 32.7, (), MISSED),
        (around(0.1, 0.2, 0.5), 0.119, (0.118, 0.12), MET),
        (around(0.1, 0.2, 0.5), 0.119, (0.117, 0.121), UNDECIDED),
        (around(0.1, 0.2, 0.5), 0.125, (0.121, 0.129), NEAR),
        (around(0.1, 0.2, 0.5), 0.16, (0.15, 0.17), MISSED),
        (around(0.1, 0.2, 0.5), 0.04, (0.03, 0.05), MISSED),
        (above(10), 10, (10, 10), MET),
        (above(10), 15, (9.9, 20), UNDECIDED),
        (above(10), 9, (8, 9.9), MISSED),
    ],
)
def test_edges(rule, value, ends, verdict):
    assert rule.judge(value, *ends) is verdict


def test_messages():
    wrong = [
        (lambda: figure("0"), "printed: must have decimals if it is 0"),
        (lambda: student([1.0]), "values: must have at least 2 items, not 1"),
        (lambda: share(0, 0), "trials: must be at least 1, not 0"),
    ]
    for printed in ("all", "nan", "2^-5", "inf", ""):
        message = f"printed: must be a decimal number, not {printed!r}"
        wrong += [(partial(rule, printed), message) for rule in (digits, figure)]
    for call, message in wrong:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()


def test_difference_is_what_the_page_says():
    low, high = figure("0.50000").within
    assert (low, high) == pytest.approx((0.5 - 0.5 * DIFFERENCE, 0.5 + 0.5 * DIFFERENCE))


# Findings of a paper's file


@pytest.fixture
def example(monkeypatch):
    texts = {"what": "k = {k}: rate", "note": "{note}"}
    findings = {
        "ours": texts,
        "printed": texts | {"paper": "{paper}"},
        "sentence": texts | {"paper": "much", "rule": ["between", "{low:.1f}", 9]},
        "formula": texts | {"paper": "1 / 2", "rule": ["figure", "{half:.2f}"]},
        "never": texts | {"paper": "0", "rule": ["none"]},
        "cut": texts | {"paper": "{paper}", "rule": ["cut_off", "{paper}"]},
    }
    monkeypatch.setattr(paper, "_load", lambda name: {"findings": findings})
    return Paper("example")


def test_findings(example):
    def find(name, value, **fields):
        finding = example.find(name, value, k=4, note="why", **fields)
        assert (finding.what, finding.note) == ("k = 4: rate", "why")
        return finding.paper, finding.ours, finding.low, finding.verdict, finding.within

    assert find("ours", 5) == ("", 5, None, Verdict.OURS, None)
    assert find("ours", (5, 4, 6)) == ("", 5, 4, Verdict.OURS, None)
    assert find("printed", 0.5849, paper="0.58") == ("0.58", 0.5849, None, MET, None)
    assert find("printed", 0.6, paper="0.58")[3] is MISSED
    assert find("printed", (0.6, 0.57, 0.63), paper="0.58")[3] is MET
    assert find("printed", (0.6, 0.5, 0.7), paper="0.58")[3] is UNDECIDED
    assert find("printed", 0.6, paper="") == ("", 0.6, None, Verdict.OURS, None)
    assert find("sentence", (5, 2, 6), low=1.94) == ("much", 5, 2, MET, [1.9, 9])
    assert find("sentence", (5, 1, 6), low=1.94)[3] is UNDECIDED
    assert find("formula", (0.51, 0.5, 0.52), half=0.5) == ("1 / 2", 0.51, 0.5, MET, [0.45, 0.55])
    assert find("never", share(0, 100_000))[3:] == (MET, None)
    assert find("never", share(0, 100))[3] is UNDECIDED
    assert find("never", share(1, 100_000))[3] is MISSED
    assert find("cut", 26.9, paper=26) == ("26", 26.9, None, MET, None)


def test_digits_of_a_figure():
    assert to_digits_of("0.0000610351", 6.103515625e-05) == "0.0000610352"


# Estimates


def test_student():
    # Of five values, 2.776 standard errors.
    mean, low, high = student([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean == 3
    assert (high - 3, 3 - low) == (pytest.approx(2.776445 * (2.5 / 5) ** 0.5),) * 2
    assert student([0.0, 0.0, 0.1], within=SHARES)[1] == 0


def test_share():
    assert share(0, 100) == (0, 0, pytest.approx(0.0362, abs=1e-4))
