"""Configures Sphinx, and takes parts of the pages from the code."""

import inspect
import re
from importlib.metadata import version as installed_version
from pathlib import Path

import click

from lately.cli.app import main

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

myst_heading_anchors = 3


def command_contexts(command, name, parent=None):
    settings = {} if parent else {"terminal_width": 90, **command.context_settings}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context
    for below in (
        sorted(command.list_commands(context)) if hasattr(command, "list_commands") else ()
    ):
        yield from command_contexts(command.get_command(context, below), below, context)


def command_help():
    contexts = list(command_contexts(main, "lately"))
    return "\n".join(
        f"## {context.command_path}\n\n```text\n{context.get_help()}\n```\n" for context in contexts
    )


def skip_alias(app, kind, name, obj, skip, options):
    """Skip the fields of named tuples, which the docstring of the class describes."""
    alias = (obj.__doc__ or "").startswith("Alias for field number")
    return True if alias or name == "specification" else None


def show_constructor(app, kind, name, obj, options, signature, returns):
    """Show the arguments of a component's constructor, which Amaranth hides."""
    if kind == "class" and signature and "src_loc_at" in signature:
        parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
        return str(inspect.Signature(parameters)), returns
    return None


MODULE_LIST = re.compile(r"Here, on GitHub, .*?:\n\n((?:- \[.*\n?)+)", re.DOTALL)
"""The list of modules in the Python reference, which GitHub shows."""


def module_summary(folder):
    """Return a table that replaces the list of modules; Sphinx writes their pages into `folder`."""
    modules = MODULE_LIST.search((Path(__file__).parent / "api" / "index.md").read_text("utf-8"))
    names = "\n   ".join(re.findall(r"`(.+?)`", modules[1]))
    return f"""

```{{eval-rst}}
.. autosummary::
   :toctree: {folder}
   :recursive:

   {names}
```
"""


# The extension takes the names from files, not from what a hook returns.
autosummary_generate = ["_build/modules.md"]


def write_module_names(app, config):
    path = Path(app.srcdir) / autosummary_generate[0]
    path.parent.mkdir(exist_ok=True)
    path.write_text(module_summary("../api/generated"), "utf-8")


SECTION = re.compile(r"^## (.+)\n\n((?:- \[.*\n)+)", re.MULTILINE)


SOURCE = re.compile(r"^\[`(.+)`\]\((\.\./\S+\.py)\)$", re.MULTILINE)
"""A line that is a link to a source file, or to a class or a line of the file."""


def quoted(link):
    option = "start-at" if link[1].endswith("(") else "pyobject"
    options = "" if link[1].endswith(".py") else f":{option}: {link[1]}\n"
    return f"```{{literalinclude}} {link[2]}\n{options}```"


def add_contents(app, name, source):
    """Add tables of contents, quoted sources, and the help of the commands to a page.

    The landing page gets a table of contents for each section, and a page with a folder gets one
    for the folder. The Python reference gets the table of modules. On GitHub, which does not run
    this function, readers see lists and links instead.
    """
    source[0] = SOURCE.sub(quoted, source[0])
    if name == "commands":
        source[0] += command_help()
    if name == "api/index":
        source[0] = MODULE_LIST.sub(module_summary("generated"), source[0])
    if name != "api" and (Path(app.srcdir) / name).is_dir():
        source[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{name}/*\n```\n"
    if name == "index":
        for caption, links in SECTION.findall(source[0] + "\n"):
            pages = "\n".join(re.findall(r"^- \[.*?\]\((.*?)\.md\)", links, re.MULTILINE))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def setup(app):
    app.connect("config-inited", write_module_names)
    app.connect("source-read", add_contents)
    app.connect("autodoc-skip-member", skip_alias)
    app.connect("autodoc-process-signature", show_constructor)
