"""Draw charts, and SVG for HTML pages, with matplotlib in the style of this package."""

import io
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ..golden.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, darkened for lines on white.
COLOURS = {
    "ink": "#1c2430", "muted": "#5d6b7c", "grid": "#d5dbe3", "blue": "#0072b2", "orange": "#c76a00",
    "green": "#00815d", "grey": "#9aa5b3", "band": "#56b4e9",
}  # fmt: skip


def style() -> Any:
    import matplotlib as mpl

    return mpl.rc_context(fname=Path(__file__).parent / "report.mplstyle")


def blank_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=None)


def legend(axes: "Axes") -> None:
    entries = zip(*axes.get_legend_handles_labels(), strict=True)
    # Measurements first; by default, error bars would be listed after the lines.
    first = sorted(entries, key=lambda entry: not entry[1].startswith("measured"))
    axes.legend(
        *zip(*first, strict=True), loc="lower left", bbox_to_anchor=(-0.015, 0.995), ncols=2,
        columnspacing=1.4, borderaxespad=0.2, handlelength=1.5,
    )  # fmt: skip
    # Reserve two rows everywhere, so that titles are aligned.
    axes.set_title(axes.get_title(loc="left"), loc="left", pad=38)


Estimate = tuple[float, float, float]  # a value, and the bounds of its 95 % confidence interval


@dataclass(frozen=True)
class Series:
    """A line in a chart or, if `marks` is set, points; `low` and `high` bound the intervals."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    marks: bool = False

    @classmethod
    def estimated(
        cls, label: str, x: Sequence[float], values: Iterable[Estimate], *, marks: bool = False
    ) -> Self:
        mean, low, high = (list(column) for column in zip(*values, strict=True))
        return cls(label, x, mean, low, high, marks)


@dataclass(frozen=True)
class Chart:
    name: str  # file name without suffix, such as "apbf-figure-6"
    title: str
    x: str  # axis titles, including units
    y: str
    series: list[Series]
    x_log: bool = False
    y_log: bool = False


PALETTE = (
    *(COLOURS[name] for name in ("blue", "orange", "green")), "#a2447e", "#8a6d00", "#5d6b7c",
)  # fmt: skip

_MARKERS = "osD^vP"
# Metadata to omit, because it differs between days and versions.
_METADATA = {
    "svg": ("Date", "Creator"),
    "png": ("Software",),
    "pdf": ("CreationDate", "Creator", "Producer"),
}


def draw(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Draw a chart to a .svg, .png or .pdf file; the same chart gives the same bytes."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in _METADATA:
        raise ValueError(f"path: must end in .svg, .png or .pdf, not {os.fspath(path)!r}")
    with style():
        figure = blank_figure(7, 4.2)
        axes = figure.subplots()
        colours: dict[str, int] = {}
        for series in chart.series:
            label = None if series.label in colours else series.label
            number = colours.setdefault(series.label, len(colours))
            _draw_series(axes, series, number, label)
        scales = ["log" if log else "linear" for log in (chart.x_log, chart.y_log)]
        axes.set(xscale=scales[0], yscale=scales[1])
        axes.set(xlabel=chart.x, ylabel=chart.y, title=chart.title)
        if len(colours) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        save(figure, path)


def save(figure: "Figure", path: str | os.PathLike[str], description: str = "") -> None:
    """Write a figure to a file; add the description to an SVG file, and compact it with `small`."""
    form = Path(path).suffix.lower().removeprefix(".")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=form, dpi=90, metadata=dict.fromkeys(_METADATA[form]))
    content = drawn.getvalue()
    with replace_file(path) as file:
        file.write(small(content, description) if form == "svg" else content)


def _draw_series(axes: "Axes", series: Series, number: int, label: str | None) -> None:
    colour = PALETTE[number % len(PALETTE)]
    marker = _MARKERS[number % len(_MARKERS)] if series.marks else ""
    line = "" if series.marks else "-"
    looks: dict[str, Any] = {"color": colour, "linestyle": line, "marker": marker}
    looks |= {"markersize": 4.5, "label": label}
    if series.low is None or series.high is None or not series.marks:
        axes.plot(series.x, series.y, **looks)
        if series.low is not None and series.high is not None:
            ends = series.low, series.high
            axes.fill_between(series.x, *ends, color=colour, alpha=0.2, linewidth=0)
        return
    below = [max(0.0, y - low) for y, low in zip(series.y, series.low, strict=True)]
    above = [max(0.0, high - y) for y, high in zip(series.y, series.high, strict=True)]
    axes.errorbar(series.x, series.y, (below, above), elinewidth=1.2, **looks)


class Mark(NamedTuple):
    """A point in a plot, in axis units, and its tooltip."""

    axes: "Axes"
    x: float
    y: float
    text: str


def page_drawing(height: float, draw: Callable[..., list[Mark]], plots: int = 1) -> str:
    """Draw plots, stacked vertically, as SVG whose colours are CSS variables of the page."""
    text = io.StringIO()
    with style():
        figure = blank_figure(9, height)
        heights = {"height_ratios": (2, 1), "hspace": 0.14} if plots == 2 else {}
        axes = figure.subplots(plots, 1, sharex=True, squeeze=False, gridspec_kw=heights)
        marks = draw(*axes[:, 0])
        figure.savefig(text, format="svg", transparent=True)
    scale, top = 72 / figure.dpi, figure.get_figheight() * 72
    circles = []
    for plot, x, y, words in marks:
        right, up = plot.transData.transform((x, y))
        # A logarithmic axis cannot show 0.
        right, up = right * scale, min(max(up, plot.bbox.y0), plot.bbox.y1) * scale
        circles.append(
            f'<circle cx="{right:.1f}" cy="{top - up:.1f}" r="6">'
            f"<title>{escape(words)}</title></circle>"
        )
    group = "\n".join(['<g class="marks">', *circles, "</g>", ""])
    drawing = text.getvalue()
    drawing = drawing[drawing.index("<svg") : drawing.rindex("</svg>")] + group + "</svg>\n"
    drawing = re.sub(r"<metadata>.*?</metadata>\s*", "", drawing, flags=re.DOTALL)
    for size in ("width", "height"):
        drawing = re.sub(rf'(<svg [^>]*?) {size}="[^"]*"', r"\1", drawing, count=1)
    for name, colour in COLOURS.items():
        drawing = drawing.replace(colour, f"var(--{name})")
    return drawing


_SVG = "http://www.w3.org/2000/svg"
_GROUP = f"{{{_SVG}}}g"
_PATH = f"{{{_SVG}}}path"
_HREF = "{http://www.w3.org/1999/xlink}href"
_GEOMETRY = {"d", "x", "y", "points", "transform", "width", "height", "viewBox"}


def small(svg: bytes, description: str = "") -> bytes:
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(svg)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    for element in root.iter():
        element.tail = None
        element.text = (element.text or "").strip() or None
        _round(element)
    _name_styles(root)
    _shorten_ids(root)
    _flatten(root)
    if description:
        root.insert(0, Element(f"{{{_SVG}}}desc"))
        root[0].text = description
    return ElementTree.tostring(root).replace(b" />", b"/>") + b"\n"


def _round(element: Element) -> None:
    def tenth(number: "re.Match[str]") -> str:
        # Zero is never negative.
        return f"{round(float(number[0]), 1) or 0.0:.1f}".removesuffix(".0")

    for name in _GEOMETRY & element.attrib.keys():
        value = re.sub(r"-?\d+\.\d+", tenth, element.attrib[name])
        element.set(name, re.sub(r" ?([MLCQz]) ?", r"\1", " ".join(value.split())))
    if element.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
        del element.attrib["transform"]


def _name_styles(root: Element) -> None:
    classes: dict[str, str] = {}
    for element in root.iter():
        style = element.attrib.pop("style", None)
        if style is not None:
            element.set("class", classes.setdefault(style, f"c{len(classes)}"))
    (sheet,) = root.iter(f"{{{_SVG}}}style")
    rules = (f".{name}{{{style}}}" for style, name in classes.items())
    sheet.text = "".join([sheet.text or "", *rules]).replace(": ", ":").replace("; ", ";")


def _shorten_ids(root: Element) -> None:
    text = ElementTree.tostring(root, encoding="unicode")
    used = set(re.findall(r"url\(#(\w+)\)", text)) | set(re.findall(r'href="#(\w+)"', text))
    numbers = count()
    short = {
        element.attrib["id"]: f"i{next(numbers)}"
        for element in root.iter()
        if element.get("id") in used
    }
    for element in root.iter():
        if "id" in element.attrib:
            name = short.get(element.attrib.pop("id"))
            if name:
                element.set("id", name)
        if _HREF in element.attrib:
            element.set("href", f"#{short[element.attrib.pop(_HREF)[1:]]}")
        if "clip-path" in element.attrib:
            element.set("clip-path", f"url(#{short[element.attrib['clip-path'][5:-1]]})")


def _flatten(element: Element) -> None:
    """Move shared attributes to groups, and dissolve groups without attributes."""
    for child in element:
        _flatten(child)
    if element.tag == _GROUP and len(element) > 2:
        for name in sorted({"class", "clip-path"} - element.attrib.keys()):
            values = {child.get(name) for child in element}
            if len(values) == 1 and None not in values:
                element.set(name, values.pop() or "")
                for child in element:
                    del child.attrib[name]
        if all(child.tag == _PATH and child.attrib.keys() == {"d"} for child in element):
            element[0].set("d", "".join(child.attrib["d"] for child in element))
            del element[1:]
    element[:] = [
        member
        for child in element
        for member in (child if child.tag == _GROUP and not child.attrib else (child,))
    ]
