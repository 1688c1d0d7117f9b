"""Compression of the SVG drawings of matplotlib."""

import re
from itertools import count
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_SVG = "http://www.w3.org/2000/svg"
_GROUP = f"{{{_SVG}}}g"
_PATH = f"{{{_SVG}}}path"
_HREF = "{http://www.w3.org/1999/xlink}href"
_GEOMETRY = {"d", "x", "y", "points", "transform", "width", "height", "viewBox"}


def small(svg: bytes, description: str = "") -> bytes:
    """Return a smaller drawing that looks the same, with a description.

    Coordinates are rounded to a tenth of a point; styles are named once; groups without effect, and
    names without references, are removed.
    """
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
    for name in _GEOMETRY & element.attrib.keys():
        value = re.sub(r"-?\d+\.\d+", _tenth, element.attrib[name])
        element.set(name, re.sub(r" ?([MLCQz]) ?", r"\1", " ".join(value.split())))
    if element.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
        del element.attrib["transform"]


def _tenth(number: "re.Match[str]") -> str:
    rounded = round(float(number[0]), 1) or 0.0  # No negative zero.
    return f"{rounded:.1f}".removesuffix(".0")


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
    """Keep the ids that are referred to, under shorter names."""
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
    """Give groups what their members share, and dissolve those that are left with nothing."""
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
