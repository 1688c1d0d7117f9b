"""Command line of the mutation campaign."""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

if not __package__:  # Started as `python tests/mutation`: find the package in this folder.
    sys.path[0] = str(Path(__file__).parents[1])
    sys.path.insert(1, str(Path(__file__).parents[1] / "helpers"))

import mutation
from mutation.campaign import Results, judge, modules, read
from mutation.defects import try_all
from mutation.killers import ROOT
from mutation.operators import Mutant, draw, mutants

RESULTS = ROOT / "build" / "mutants.jsonl"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python tests/mutation", description=mutation.__doc__)
    add = made.add_argument
    add("names", nargs="*", metavar="MUTANT", help="only these, as hdl/queue.py:83:comparison:0")
    add("--module", action="append", metavar="PATH", help="only these modules, as hdl/queue.py")
    add("--count", type=int, default=300, help="size of the sample; default: %(default)s")
    add("--seed", type=int, default=1, help="seed of the sample; default: %(default)s")
    add("--minutes", type=float, default=float("inf"), help="time after which no mutant begins")
    add("--limit", type=float, default=600, help="seconds of a mutant; default: %(default)s")
    add("--list", action="store_true", help="only list the mutants")
    add("--defects", action="store_true", help="defects of defects.toml: by name, module or killer")
    add("--results", type=Path, default=RESULTS, help="record; its mutants are not tried again")
    return made


def drawn(options: argparse.Namespace, results: Results) -> list[Mutant]:
    """Return the named mutants, or the new ones of a sample.

    Raises
    ------
    ValueError
        If a module or a mutant does not exist.
    """
    known = modules()
    paths = options.module or [name.split(":")[0] for name in options.names] or known
    chosen_mutants = []
    for path in dict.fromkeys(paths):
        if path not in known:
            raise ValueError(f"module: must be one of golden or hdl as hdl/queue.py, not {path!r}")
        chosen_mutants += mutants(path, read(path))
    if options.names:
        by_name = {mutant.name: mutant for mutant in chosen_mutants}
        if gone := [name for name in options.names if name not in by_name]:
            raise ValueError(f"mutant: must be one that --list names, not {gone[0]!r}")
        return [by_name[name] for name in options.names]
    sample = draw(chosen_mutants, seed=options.seed, count=options.count)
    return [mutant for mutant in sample if not results.knows(mutant)]


def main(arguments: list[str] | None = None) -> int:
    """Try mutants and print the verdict of each; return 1 if some survived."""
    options = parser().parse_args(arguments)
    results = Results(options.results)
    try:
        if options.defects:
            return try_all(options.names)
        chosen = drawn(options, results)
    except ValueError as error:
        sys.exit(f"python tests/mutation: error: {error}")
    if options.list:
        for mutant in chosen:
            print(f"{mutant.name}: {mutant.old!r} -> {mutant.new!r}")
        return 0
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + 60 * options.minutes
    try:
        for number, mutant in enumerate(chosen, 1):
            started = time.monotonic()
            if started > end:
                break
            verdict = judge(mutant, results.likely(mutant.path), options.limit)
            seconds = time.monotonic() - started
            results.add(mutant, verdict, seconds)
            outcomes[verdict["outcome"]] += 1
            line = f"{number}/{len(chosen)} {mutant.name} {verdict['outcome']} {verdict['by']}"
            print(f"{line.rstrip()} ({seconds:.0f} s)", flush=True)
    except KeyboardInterrupt:
        print("interrupted; the record is kept", file=sys.stderr)
    print(", ".join(f"{outcome}: {count}" for outcome, count in outcomes.items()) or "none tried")
    return 1 if outcomes["survived"] or outcomes["open"] else 0


if __name__ == "__main__":
    sys.exit(main())
