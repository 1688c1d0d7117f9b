"""English of the project: no file has errors of style."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("golden", "hdl", "sim", "boards", "lately", "papers", "campaigns", "examples")
ERRORS = [
    r"\b(tells?|told)\b",
    r"(^|[;:.,] |\b(and|or|of|with|to|for|in|by|on|than) )[Ww]hat (is|was|are|were|has|had|it|they"
    r"|else|comes|came|there|a|the|no|each|of|any|counts|binds|others)\b",
    r"(^|[;:.] |, (and|or) )([Tt]hat|[Tt]hose)\b(?! (is|means|makes|costs|gives|takes|leaves))",
    r"^(So )?Of (?!course)",
    r"\basks?( for| of| one)?\b|\basked( for)?\b",
    r"\binputs? rests?\b|\blies? (in|at|beside|far|apart)\b|\bstands? (in|beside|still)\b",
    r"\bin hand\b|\banew\b|\bbesides\b|\bmeanwhile\b|\bin vain\b|\bas ever\b|\ball the same\b",
    r"\bfor good\b|\bdear(er)?\b|\bstrives?\b|\bheed\b|\bmend(s|ed)?\b",
    r"\bbut (for|that|by|to)\b",
    r"\b(proven|proves?|shown?|said|true) of\b",
    r"\b(is|are) to (be|take|reach|have)\b",
]
MOST_WORDS = 40
"""Words of a sentence."""


def sentences(text):
    """Return the sentences of a text in Markdown, without code, parameters and examples."""
    text = re.sub(r"```.*?```|`[^`]*`|\{\{.*?\}\}|\{%.*?%\}", "x", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^[\w*, .`]+ : .*$|^\s*\x08(\n.+)+", "\n\n", text)
    text = re.sub(r"(?m)^\s*(\|.*|[-=]{3,}|#.*|<!--.*|\.\. .*)$", "\n", text)
    parts = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |(?<=[.!?])\s", text)
    return [" ".join(part.split()) for part in parts if part.strip()]


def errors(text):
    """Return the errors of a text."""
    found = []
    for sentence in sentences(text):
        found += [f"{sentence!r}: {error}" for error in ERRORS if re.search(error, sentence)]
        if len(sentence.split()) > MOST_WORDS:
            found.append(f"{sentence!r}: more than {MOST_WORDS} words")
    return found


def prose(path):
    """Return the texts of a file: docstrings and help, strings of TOML, or all of Markdown."""
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        return [
            line[1].replace('"', "") for line in re.finditer(r'"([^"\n]* [^"\n]* [^"\n]*)"', text)
        ]
    if path.suffix == ".j2" and not path.name.endswith(".md.j2"):
        # Comments on consecutive lines are one text.
        runs = re.findall(r"(?m)(?:^ *(?:#|//|--|/\*).+\n)+", text)
        runs = [re.sub(r"(?m)^ *(?:#|//|--|/\*)", "", run) for run in runs]
        strings = re.findall(r"\"\"\"([^\"]+)\"\"\"|desc = \"([^\"]+)\"", text)
        return runs + ["".join(found) for found in strings]
    if path.suffix != ".py":
        return [text]
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            found.append(ast.get_docstring(node) or "")
        elif isinstance(node, ast.keyword) and node.arg in ("help", "short_help"):
            found += [one.value for one in ast.walk(node.value)
                      if isinstance(one, ast.Constant) and isinstance(one.value, str)]  # fmt: skip
    return found


def files():
    """Return the files that hold prose."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    rooms = [path for name in FOLDERS for path in (ROOT / name).rglob("*.*")]
    rooms = [path for path in rooms if path.suffix in (".py", ".toml", ".md", ".j2")]
    return sorted({*pages, *rooms} - {ROOT / "CHANGELOG.md"})


def test_no_file_has_errors():
    found = [(path, one) for path in files() for text in prose(path) for one in errors(text)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "The unit tells the age.",
        "What is read is lost.",
        "The queue is full, and that of the unit waits.",
        "Of three copies one counts.",
        "It asks for a key.",
        "Everything but for the tag is kept.",
        "This is proven of all units.",
        "Limits are to be kept.",
        " ".join(["word"] * 41) + ".",
    ],
)
def test_error_is_found(text):
    assert len(errors(f"A sentence. {text}")) == 1


def test_comments_on_consecutive_lines_are_one_text(tmp_path):
    template = tmp_path / "core.v.j2"
    template.write_text("// A unit that\n// tells the age.\nwire told;\n")
    assert [len(errors(text)) for text in prose(template)] == [1]


def test_code_is_no_prose():
    assert errors("Run `lately what is told`.\n\n```text\nThis is told.\n```\n") == []
