"""Damaged inputs that coverage guides, by atheris, which has to be installed for it.

    python tests/fuzz/guided.py PARSER -max_total_time=60

All that follows the name of the parser goes to libFuzzer. Nothing is recorded: it runs until it is
told to end, or an input is neither read nor refused in one line.
"""

import sys
import tempfile
from pathlib import Path

import atheris

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "helpers")]

with atheris.instrument_imports(include=["lately"]):
    from fuzz.parsers import PARSERS, REFUSALS


def main(name: str, *options: str) -> None:
    """Begin with the good inputs of a parser."""
    parser = PARSERS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, sample in enumerate(parser.samples()):
            (Path(folder) / str(number)).write_bytes(sample)

        def test(data: bytes) -> None:
            try:
                parser.parse(parser.seal(data))
            except REFUSALS as error:
                lines = len(str(error).splitlines())
                if lines != 1:
                    raise ValueError(f"{lines} lines") from error

        atheris.Setup([__file__, "-timeout=5", "-rss_limit_mb=4096", *options, folder], test)
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
