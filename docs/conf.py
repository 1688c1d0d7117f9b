"""Sphinx configuration, and what the pages take from the code."""

import inspect
import re
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

import click

from lately import PRESETS, SpecificationError, preset
from lately.cli.app import main
from lately.hdl.memory.variants import VARIANTS
from lately.hdl.ring.profile import RingProfile

sys.path.append(str(Path(__file__).parent))

from import_picture import import_table, picture

project = "Lately"
author = "The Lately contributors"
copyright = author
release = version = installed_version("lately")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "README.md"]
html_theme = "furo"
html_title = project
html_static_path = ["_static"]
html_css_files = ["narrow.css"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = False
napoleon_custom_sections = [("Members", "params_style")]
napoleon_use_param = False
napoleon_use_rtype = False
default_role = "py:obj"
# The types of attributes are taken for references, and several classes have a `shape`.
suppress_warnings = ["ref.python"]

myst_enable_extensions = ["deflist", "substitution"]
myst_heading_anchors = 3


def table(header, rows):
    """Lay out a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def preset_table():
    """Lay out what the hardware of each preset is."""
    header = ["preset", "window", "generation", "minimum", "ring + spare", "memories", "latency"]
    rows = []
    for name, spec in PRESETS.items():
        try:
            profile = RingProfile.of(spec)
            profile.check_buildable()
        except SpecificationError:
            continue
        rows.append(
            [
                f"`{name}`",
                f"{spec.window:,}",
                f"{spec.generation:,}",
                f"{profile.minimum_generation:,}",
                f"{spec.ring_segments} + 1",
                f"{spec.segments * spec.parts} x {spec.part_bits:,}",
                profile.latency,
            ]
        )
    return table(header, rows)


def latency_table(names):
    """Lay out the clocks of each pipeline stage."""
    terms = {name: RingProfile.of(preset(name)).latency_terms for name in names}
    rows = [[stage, *(terms[name][stage] for name in names)] for stage in terms[names[0]]]
    rows.append(["all", *(RingProfile.of(preset(name)).latency for name in names)])
    return table(["stage", *(f"`{name}`" for name in names)], rows)


def variant_table():
    """Lay out the variants of the segment memory."""
    rows = [
        [f"`{name}`", f"`{cls.__name__}`", cls.__doc__.splitlines()[0]]
        for name, cls in VARIANTS.items()
    ]
    return table(["name", "component", "what it is"], rows)


def command_contexts(command, name, parent=None):
    """Yield the context of a command, and those of the commands below it."""
    settings = {} if parent else {"terminal_width": 90, **command.context_settings}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context
    for below in (
        sorted(command.list_commands(context)) if hasattr(command, "list_commands") else ()
    ):
        yield from command_contexts(command.get_command(context, below), below, context)


def command_help():
    """Return the help of every command, as the terminal shows it."""
    contexts = list(command_contexts(main, "lately"))
    return "\n".join(
        f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n" for context in contexts
    )


myst_substitutions = {
    "import_picture": f"```{{raw}} html\n{picture()}\n```",
    "import_table": import_table(),
    "command_help": command_help(),
    "latency": latency_table(["apbf-default", "apbbf-default", "gebf-default"]),
    "presets": preset_table(),
    "variants": variant_table(),
}


def skip_alias(app, what, name, obj, skip, options):
    """Leave out what the docstring of a class describes already."""
    alias = (obj.__doc__ or "").startswith("Alias for field number")
    return True if alias or name == "specification" else None


def show_constructor(app, what, name, obj, options, signature, returns):
    """Show the arguments of a component's constructor, which Amaranth hides."""
    if what == "class" and signature and "src_loc_at" in signature:
        parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
        return str(inspect.Signature(parameters)), returns
    return None


SECTION = re.compile(r"^## (.+)\n\n((?:- \[.*\n)+)", re.MULTILINE)
"""A section of the landing page: a heading and a list of links to pages."""


def add_contents(app, name, source):
    """Add a table of contents for each section of the landing page; GitHub shows the lists."""
    if name == "index":
        for caption, links in SECTION.findall(source[0] + "\n"):
            pages = "\n".join(re.findall(r"^- \[.*?\]\((.*?)\.md\)", links, re.MULTILINE))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def setup(app):
    """Connect the hooks."""
    app.connect("source-read", add_contents)
    app.connect("autodoc-skip-member", skip_alias)
    app.connect("autodoc-process-signature", show_constructor)
