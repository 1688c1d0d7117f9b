"""Values that a page's drawings show at the pointer."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS_PER_INCH = 72


class Mark(NamedTuple):
    """A point of a plot, in the units of its axes, and its text."""

    axes: "Axes"
    x: float
    y: float
    text: str


def with_marks(svg: str, figure: "Figure", marks: Sequence[Mark]) -> str:
    """Return a drawing with an unseen circle, whose title is the text, at each mark.

    A browser shows the title of a circle, and the script of the page that of the nearest one.

    Parameters
    ----------
    svg : str
        As `figure` was saved.
    figure : Figure
    marks : sequence of Mark
    """
    scale = _POINTS_PER_INCH / figure.dpi
    height = figure.get_figheight() * _POINTS_PER_INCH
    circles = []
    for axes, x, y, text in marks:
        right, up = axes.transData.transform((x, y))
        # A logarithmic axis has no place for 0.
        right, up = right * scale, min(max(up, axes.bbox.y0), axes.bbox.y1) * scale
        circles.append(
            f'<circle cx="{right:.1f}" cy="{height - up:.1f}" r="6">'
            f"<title>{escape(text)}</title></circle>"
        )
    group = "\n".join(['<g class="marks">', *circles, "</g>", ""])
    end = svg.rindex("</svg>")
    return svg[:end] + group + svg[end:]
