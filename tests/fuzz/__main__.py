"""Command line of the fuzzers."""

import argparse
import secrets
import sys
from pathlib import Path

if not __package__:  # Started as `python tests/fuzz`: find the packages of the repository.
    TESTS = Path(__file__).parents[1]
    sys.path[:1] = [str(TESTS.parent), str(TESTS), str(TESTS / "helpers")]

import fuzz
from fuzz.campaign import record, run_parser
from fuzz.parsers import PARSERS, ROOT


def main(arguments: list[str] | None = None) -> None:
    """Give each parser damaged inputs; fail if an input is neither read nor refused in a line."""
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=fuzz.__doc__)
    add = parser.add_argument
    add("--parser", action="append", choices=PARSERS, help="this one only; may be repeated")
    add("--seconds", type=float, default=10, help="for each parser; default: %(default)s")
    add("--count", type=int, default=1 << 40, help="inputs of each parser, at most")
    add("--seed", type=int, help="of the inputs; drawn if it is not given")
    add("--record", type=Path, default=ROOT / "build" / "fuzz.json", help="counts are added here")
    options = parser.parse_args(arguments)
    seed = secrets.randbits(32) if options.seed is None else options.seed
    failed = 0
    for name in options.parser or PARSERS:
        counts = run_parser(name, seed=seed, count=options.count, seconds=options.seconds)
        print(f"{name}: {counts.inputs:,} inputs, {counts.refused:,} refused, seed {seed}")
        if counts.failure:
            print(f"{name}: {counts.failure}", file=sys.stderr)
            failed += 1
        else:
            record(options.record, name, seed, counts)
        sys.stdout.flush()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
