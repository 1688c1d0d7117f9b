"""Command line of the reproduction: `python -m papers`."""

from .commands import reproduce

if __name__ == "__main__":
    reproduce(prog_name="python -m papers")
