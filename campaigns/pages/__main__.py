"""Generate the tables and drawings of the pages from recorded results."""

import argparse
import sys
import warnings
from pathlib import Path

from . import drawings, files, pictures, tables
from .blocks import ROOT

PAGES = {
    page.path.stem: page
    for page in (
        *drawings.PAGES, *tables.PAGES, *files.PAGES, pictures.GALLERY, pictures.HOW_IT_WORKS,
    )
}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    # Units are built only to read their limits.
    warnings.filterwarnings("ignore", message=".* created but never used")
    parser = argparse.ArgumentParser(prog="python -m campaigns.pages", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="only list the files that are out of date"
    )
    parser.add_argument("page", nargs="?", choices=PAGES, help="page to write  [default: all]")
    parser.add_argument(
        "files", nargs="*", type=Path, help="files with new measurements to store first"
    )
    options = parser.parse_args(arguments)
    chosen = [PAGES[options.page]] if options.page else list(PAGES.values())
    if options.check:
        stale = [path for page in chosen for path in page.stale()]
        if stale:
            names = ", ".join(path.relative_to(ROOT).as_posix() for path in stale)
            sys.exit(f"out of date: {names}; run python -m campaigns.pages")
        return
    for page in chosen:
        if options.files:
            if page.take is None:
                parser.error(f"{options.page} does not accept files")
            page.take(options.files)
        page.write()


if __name__ == "__main__":
    main()
