"""README.md: what its examples and commands print.

`python docs/pages README demo` runs a command that takes longer anew, and so for each of `LONG`.
"""

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

from .blocks import ROOT, Page, fill, write

README = ROOT / "README.md"
COMMANDS = {
    "plan_million": "lately plan --window 1000000 --fpr 0.01 --device ecp5-25k-6",
    "plan_fits": "lately plan --window 48000 --fpr 0.01 --device ecp5-25k-6 --candidates 1",
    "plan_span": "lately plan --span 30s --rate 200e3 --fpr 0.001 --candidates 1",
    "plan_ice40": "lately plan --window 4000 --fpr 0.02 --device ice40-hx8k --candidates 1",
    "plan_slack": "lately plan --window 20000 --fpr 0.01 --slack 0.1 --candidates 1",
}
LONG = {
    "demo": "make demo",
    "test": "make test",
    "speed": "lately bench golden",
    "synth": "lately synth --device ecp5-25k-6",
}


def example_output(source: str) -> str:
    """Run a Python example and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, "README.md", "exec"), {})
    return _fenced(printed.getvalue())


def examples(text: str) -> dict[str, str]:
    """Return the Python examples by the name of the block that follows each."""
    found = re.findall(r"```python\n(.*?)```\n\n<!-- begin (\S+) -->", text, re.DOTALL)
    return {name: source for source, name in found}


def command_output(command: str) -> str:
    """Run a command in the repository and return it with what it printed, as a block."""
    words = command.split()
    if words[0] == "lately":
        words[0] = str(Path(sys.executable).parent / "lately")
    # A plan that there is none for is an answer, on standard error.
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if result.returncode and not result.stderr.startswith("lately: error: device"):
        sys.exit(result.stderr)
    lines = [line.rstrip() for line in (result.stdout or result.stderr).splitlines()]
    if command == "make test":
        lines = [line for line in lines if "passed" in line][-1:]
    body = "\n".join(lines).strip("\n")
    return _fenced(f"$ {command}\n{body}\n")


def _fenced(text: str) -> str:
    return f"```text\n{text}```"


def blocks() -> dict[str, str]:
    """Return what takes no long time."""
    sources = examples(README.read_text("utf-8"))
    printed = {name: example_output(source) for name, source in sources.items()}
    return printed | {name: command_output(command) for name, command in COMMANDS.items()}


def take(names: list[Path]) -> None:
    """Run longer commands, by their names."""
    renewed = {name: command_output(LONG[name]) for name in map(str, names)}
    write(README, fill(README.read_text("utf-8"), renewed))


PAGE = Page(README, blocks, take=take)
