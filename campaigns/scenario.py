"""Replays the scenario of a soak in the cocotb bench, with waves.

A scenario is all that a random test does to a unit, as steps: the name of a method of
`lately.sim.CompiledUnit`, and its arguments. `Player` performs a scenario on the golden model and
records it. Steps of a seed do not depend on the answers of a unit, so each player has the same.
"""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from lately.cli.reporting import fail_with
from lately.golden import Results, Specification, any_preset, from_spec
from lately.hdl.build import unit_profile

from . import soak
from .random_test import random_test, usual_ticks

Step = tuple[str, dict[str, Any]]
"""A method, and its arguments as JSON can hold them."""


class Player:
    """Golden model with the methods of a compiled unit; records all calls as `steps`."""

    def __init__(self, spec: Any) -> None:
        self.spec = spec
        self.profile: Any = unit_profile(spec)
        self.steps: list[Step] = []
        self.cycles = 0
        self._restart()

    def _restart(self) -> None:
        self.ticks = 0
        self._model = from_spec(self.spec)

    def _record(self, name: str, **arguments: Any) -> None:
        given = {key: _plain(value) for key, value in arguments.items() if value is not None}
        self.steps.append((name, given))

    def interrupt(self, codes: NDArray[np.uint8], keys: Any, beats: int) -> None:
        """Reset the model; the operations have no effect after it."""
        self._record("interrupt", codes=codes, keys=keys, beats=beats)
        self._restart()

    def set_generation(self, length: int) -> None:
        """Set the length of a generation; several lanes take at least the minimum."""
        self._record("set_generation", length=length)
        least = self.profile.minimum_generation
        self._model.generation = max(length, least) if self.spec.lanes > 1 else length

    def rekey(self, secret: int) -> None:
        """Load a secret."""
        self._record("rekey", secret=secret)
        self._model.rekey(secret)

    def decide_by(self, table: NDArray[np.int64]) -> None:
        """Load a table."""
        self._record("decide_by", table=table)
        self._model.decide_by(table)

    @property
    def statistics(self) -> dict[str, int]:
        """Counters of the model."""
        counters: dict[str, int] = self._model.counters
        return counters

    @property
    def memory(self) -> NDArray[Any]:
        """Memory of the model, at the current tick."""
        timed = self.spec.timed and self.spec.kind == "timing"
        now = self.ticks * self.spec.period if timed else 0
        return np.array(self._model.memory_at(now) if timed else self._model.memory)

    def perform(
        self, codes: Any, keys: Any, times: Any = None, windows: Any = None, **how: Any
    ) -> Results:
        """Perform operations."""
        self._record("perform", codes=codes, keys=keys, times=times, windows=windows, **how)
        results: Results = self._model.perform(codes, keys, times, windows)
        return results

    def perform_freely(
        self,
        codes: Any,
        keys: Any,
        windows: Any = None,
        *,
        period: int,
        silence: int = 0,
        **how: Any,
    ) -> Results:
        """Perform an operation in each cycle, with a tick every `period` cycles."""
        own = {"period": period, "silence": silence, "windows": windows}
        self._record("perform", codes=codes, keys=keys, **own, **how)
        times = self.ticks + np.arange(len(codes)) // period
        results = self._model.perform(
            codes,
            keys,
            times * getattr(self.spec, "period", 1),
            *([] if windows is None else [windows]),
        )
        self.ticks = int(times[-1]) + silence // period
        self.cycles += len(codes) + silence
        return results._replace(time=times)

    def pass_ticks(self, ticks: int) -> None:
        """Let ticks pass."""
        self._record("pass_ticks", ticks=ticks)
        self.ticks += ticks

    def idle(self, cycles: int) -> None:
        """Let cycles pass."""
        self._record("idle", cycles=cycles)
        self.ticks += cycles // self.profile.least_period


def _plain(value: Any) -> Any:
    """Return an argument as JSON can hold it; keys of several words as one integer each."""
    array = np.asarray(value)
    if array.ndim == 2 and array.dtype == np.uint64:
        return [sum(word << 64 * at for at, word in enumerate(key)) for key in array.tolist()]
    return array.tolist()


def scenario(
    spec: Specification, *, operations: int, seed: int, ticks: str | None = None
) -> list[Step]:
    """Return the steps of a soak with these arguments."""
    player = Player(spec)
    test = random_test(spec)(player, spec, seed, ticks or usual_ticks(spec))
    soak.perform(test, operations)
    return player.steps


@click.command("waves")
@click.argument("case")
@click.option("--seed", type=int, default=1, help="Seed of the soak.", show_default=True)
@click.option("--operations", type=int, default=1000, help="Operations of the soak.",
              show_default=True)  # fmt: skip
@click.option("--memory", help="Variant of the memories; by default, the seed draws the hardware.")
@click.option("--simulator", type=click.Choice(["icarus", "verilator"]), default="icarus",
              show_default=True, help="Simulator.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=Path("build", "waves"),
              show_default=True, help="Folder of the waves and the logs.")  # fmt: skip
def waves(
    case: str, seed: int, operations: int, memory: str | None, simulator: str, out: Path
) -> None:
    """Replay a seed of a soak in cocotb, and keep the waves.

    CASE is a case of the campaign soak, a preset, or a specification in a file. The operations
    are those of `python -m campaigns run soak` with the same options; pauses have the same shares,
    but other cycles.
    """
    from lately.sim.bench.runner import replay_steps

    spec = Specification.from_toml(case) if Path(case).is_file() else soak.CASES.get(case)
    spec = spec or any_preset(case)
    build = soak.drawn_hardware(spec, seed, memory)
    steps = scenario(spec, operations=operations, seed=seed, ticks=build.get("ticks"))
    folder = out / f"{Path(case).name}-{seed}"
    passed, path = replay_steps(spec, steps, simulator, folder, seed=seed, **build)
    click.echo(f"hardware {json.dumps(build)}; waves in {path}")
    fail_with(
        [] if passed else [f"{case}: seed {seed} fails; see {simulator}.log beside the waves"]
    )
