"""Writes the generated parts of the pages: `python -m campaigns.pages`.

A page is hand-written Markdown. Blocks between `<!-- begin NAME -->` and `<!-- end -->` are filled
from the measurements in `results/`. Each module here fills the blocks of one or more pages.
"""
