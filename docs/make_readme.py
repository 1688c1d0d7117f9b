"""Puts into README.md what its commands and examples print: `python docs/make_readme.py`.

What follows a line such as `<!-- golden -->`, up to the next blank line after the block, is what
the command or the Python example above it printed.
"""

import argparse
import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
COMMANDS = {
    "demo": "make demo",
    "test": "make test",
    "speed": "lately bench golden",
    "synth": "lately synth --device ecp5-25k-6",
    "plan_million": "lately plan --window 1000000 --fpr 0.01 --device ecp5-25k-6",
    "plan_fits": "lately plan --window 48000 --fpr 0.01 --device ecp5-25k-6 --candidates 1",
    "plan_span": "lately plan --span 30s --rate 200e3 --fpr 0.001 --candidates 1",
    "plan_ice40": "lately plan --window 4000 --fpr 0.02 --device ice40-hx8k --candidates 1",
    "plan_slack": "lately plan --window 20000 --fpr 0.01 --slack 0.1 --candidates 1",
}
MARKER = re.compile(r"<!-- (\w+) -->\n(?:\n```text\n.*?\n```\n)?", re.DOTALL)


def example_output(source: str) -> str:
    """Run a Python example and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})
    return printed.getvalue()


def examples(text: str) -> dict[str, str]:
    """Return the Python examples by the name of the marker that follows each."""
    found = re.findall(r"```python\n(.*?)```\n\n<!-- (\w+) -->", text, re.DOTALL)
    return {name: source for source, name in found}


def printed(text: str) -> dict[str, str]:
    """Return what README.md says that each example or command prints."""
    found = re.findall(r"<!-- (\w+) -->\n\n```text\n(.*?)```", text, re.DOTALL)
    return dict(found)


def command_output(command: str) -> str:
    """Run a command in the repository and return its output, blank lines at the ends dropped."""
    words = command.split()
    words[0] = str(ROOT / ".venv" / "bin" / words[0]) if words[0] == "lately" else words[0]
    # A plan that there is none for is an answer, on standard error.
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if result.returncode and not result.stderr.startswith("lately: error: device"):
        sys.exit(result.stderr)
    lines = [line.rstrip() for line in (result.stdout or result.stderr).splitlines()]
    if command == "make test":
        lines = [line for line in lines if "passed" in line][-1:]
    body = "\n".join(lines).strip("\n")
    return f"$ {command}\n{body}\n"


def main() -> None:
    """Rewrite README.md, or only the blocks that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="blocks to renew; all by default")
    names = parser.parse_args().names
    text = README.read_text("utf-8")
    sources = examples(text)

    def renew(match: "re.Match[str]") -> str:
        name = match[1]
        if names and name not in names:
            return match[0]
        print(f"renewing {name}", file=sys.stderr)
        new = example_output(sources[name]) if name in sources else command_output(COMMANDS[name])
        return f"<!-- {name} -->\n\n```text\n{new}```\n"

    README.write_text(MARKER.sub(renew, text), "utf-8")


if __name__ == "__main__":
    main()
