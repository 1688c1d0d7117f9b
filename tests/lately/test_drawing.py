"""Charts are thinned to what can be seen, and drawn in few bytes."""

from xml.etree import ElementTree

import numpy as np
import pytest

from lately.replay.drawing import Chart, Series, draw, small
from papers.studies.report import TOLERANCE, thinned

X = np.linspace(0, 10, 2001)


def chart(*series, **options):
    return Chart("a", "Title", "x", "y", list(series), **options)


def line(y, **options):
    return Series("line", list(X), list(y), **options)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("curve", [np.sin, np.exp, np.floor, lambda x: 1 / (0.01 + x)])
def test_line_stays_within_the_tolerance(curve, log):
    y = curve(X) + 2
    (thin,) = thinned(chart(line(y), y_log=log)).series
    assert len(thin.x) < len(X) / 8
    scale = np.log if log else np.asarray
    # A step has two values at nearly one place; so compare where it is not near.
    away = np.abs(np.interp(X, thin.x, scale(thin.y)) - scale(y)) / np.ptp(scale(y))
    assert np.quantile(away, 0.97) < 5 * TOLERANCE


def test_ends_and_extremes_are_kept():
    y = 1000 * np.sin(X)
    y[700] = 5000
    (thin,) = thinned(chart(line(y))).series
    assert (thin.x[0], thin.x[-1]) == (X[0], X[-1])
    assert max(thin.y) == 5000
    assert min(thin.y) == pytest.approx(min(y), abs=1)


def test_straight_line_has_two_points():
    (thin,) = thinned(chart(line(3 * X))).series
    assert (thin.x, thin.y) == ([0, 10], [0, 30])


def test_marks_are_all_kept():
    given = line(np.ones_like(X), low=list(X), high=list(X), marks=True)
    (thin,) = thinned(chart(given)).series
    assert len(thin.x) == len(thin.low) == len(thin.high) == len(X)


@pytest.mark.parametrize("log", [False, True])
def test_thinning_twice_thins_no_further(log):
    rng = np.random.default_rng(1)
    given = chart(*(line(np.cumsum(rng.random(len(X))) + 0.1) for _ in range(3)), y_log=log)
    once = thinned(given)
    assert thinned(once) == once


def test_digits_follow_the_axis():
    """A narrow range far from zero keeps the digits that tell its points apart."""
    given = Series("a", [2000.0, 2000.5, 2001.0], [0.99751234, 1.0, 0.99801234], marks=True)
    (thin,) = thinned(chart(given)).series
    assert thin.x == [2000.0, 2000.5, 2001.0]
    assert thin.y == pytest.approx(given.y, abs=0.0025 / 2000)


@pytest.mark.parametrize("log", [False, True])
def test_ends_of_intervals_have_a_digit_less(log):
    """Half a unit of the last digit is at most half a percent, or that share of the axis."""
    x, ends = [1.0, 2.0], [1.23456, 977.654]
    (thin,) = thinned(chart(Series("a", x, ends, ends, ends, marks=True), y_log=log)).series
    assert thin.y == ([1.235, 977.7] if log else [1.2, 977.7])
    assert thin.low == thin.high == ([1.23, 978.0] if log else [1.0, 978.0])


def test_shared_attributes_come_in_one_order():
    """In that of their names, whatever the order in which a process holds a set."""
    path = '<path d="M0 0L1 1" clip-path="url(#a)" style="fill: red"/>'
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg"><style/><clipPath id="a"/><g>{path * 3}</g>'
    assert b'<g class="c0" clip-path="url(#i0)">' in small(f"{drawing}</svg>".encode())


def test_flat_and_empty():
    flat = Series("a", [1.0, 2.0, 3.0], [0.0, 0.0, 0.0])
    assert thinned(chart(flat)).series[0].y == [0.0, 0.0]
    empty = Series("a", [], [])
    assert thinned(chart(empty)).series == [empty]
    assert thinned(chart()).series == []


def test_drawing_is_small_and_readable(tmp_path):
    given = line(np.sin(X), low=list(np.sin(X) - 0.1), high=list(np.sin(X) + 0.1), marks=True)
    path = tmp_path / "a.svg"
    draw(chart(given, line(np.cos(X))), path)
    text = "".join(ElementTree.fromstring(path.read_bytes()).itertext())
    assert "Title" in text
    assert path.read_bytes().count(b"<use ") >= len(X)
    assert path.stat().st_size < 65 * len(X)


def test_small_keeps_what_is_referred_to():
    svg = b"""<svg xmlns="http://www.w3.org/2000/svg"><metadata>now</metadata>
 <defs><style>*{stroke-linejoin: round}</style>
  <path id="mark" d="M 0 0 \nL 0 -0.001 \n" style="fill: red"/></defs>
 <g id="one"><g id="two"><use xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="#mark"
   x="1.26" y="-3.04"/></g></g>
 <text transform="rotate(-0 1 2)">1.234</text>
</svg>"""
    assert small(svg, "A <b>") == (
        b'<svg xmlns="http://www.w3.org/2000/svg"><desc>A &lt;b&gt;</desc>'
        b"<defs><style>*{stroke-linejoin:round}.c0{fill:red}</style>"
        b'<path d="M0 0L0 0" class="c0" id="i0"/></defs>'
        b'<use x="1.3" y="-3" href="#i0"/><text>1.234</text></svg>\n'
    )
