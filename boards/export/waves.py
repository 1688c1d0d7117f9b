"""GTKWave save file of an exported unit, with one group for each instance."""

import re
from collections.abc import Iterator

_MODULE = re.compile(r"^module (\w+)\(.*?^endmodule$", re.M | re.S)
_PORT = re.compile(r"^  (?:input|output) (?:\[(\d+):0\] )?(\w+);$", re.M)
_INSTANCE = re.compile(r"^  (\w+) (\w+) \($", re.M)


def save_file(text: str, name: str) -> str:
    """Return a GTKWave save file with a group for the ports of each distinct module."""
    lines = [f'[dumpfile] "{name}.vcd"', "[timestart] 0"]
    for path, ports in groups(text, name, f"{name}_tb.dut"):
        # Only the unit's own group is expanded.
        begin, end = ("800200", "1000200") if path.endswith("_tb.dut") else ("c00200", "1401200")
        lines += [f"@{begin}", f"-{path}"]
        for port in ports:
            lines += [f"@{22 if port.endswith(']') else 28}", port]
        lines += [f"@{end}", f"-{path}"]
    return "\n".join(lines) + "\n"


def groups(text: str, top: str, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the path of each instance below `path`, parents first, and the paths of its ports."""
    modules = {match[1]: match[0] for match in _MODULE.finditer(text)}
    waiting = [(top, path)]
    shown = set()
    while waiting:
        module, instance = waiting.pop(0)
        if module in shown or module not in modules:
            continue
        shown.add(module)
        ports = _PORT.findall(modules[module])
        yield (
            instance,
            [f"{instance}.{name}" + (f"[{high}:0]" if high else "") for high, name in ports],
        )
        below = [
            (module, f"{instance}.{name}") for module, name in _INSTANCE.findall(modules[module])
        ]
        waiting = [*below, *waiting]
