"""Replays the scenario of a soak in the cocotb bench, with waves.

A scenario is all that a random test does to a unit, as steps. Steps of a seed do not depend on the
answers of a unit, so that the golden model, compiled hardware and the bench perform the same.
"""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from lately.cli.reporting import fail_with
from lately.golden import Specification, any_preset

from . import soak
from .random_test import GoldenPlayer, random_test, usual_ticks


def _plain(value: Any) -> Any:
    """Return an argument as JSON can hold it; keys of several words as one integer each."""
    array = np.asarray(value)
    if array.ndim == 2 and array.dtype == np.uint64:
        return [sum(word << 64 * at for at, word in enumerate(key)) for key in array.tolist()]
    return array.tolist()


def scenario(
    spec: Specification, *, operations: int, seed: int, ticks: str | None = None
) -> list[Any]:
    """Return the steps of a soak with these arguments, as JSON can hold them."""
    test = random_test(spec)(GoldenPlayer(spec), spec, seed, ticks or usual_ticks(spec))
    test.steps = []
    soak.perform(test, operations)
    return [
        [name, [*map(_plain, operands)], {key: _plain(value) for key, value in how.items()}]
        for name, operands, how in test.steps
    ]


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
