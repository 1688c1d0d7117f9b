"""Write the parts of the pages that programs know: `python -m campaigns.pages`.

A page is Markdown that people write, with blocks between `<!-- begin NAME -->` and `<!-- end -->`
that are filled from the measurements in `results/`. A module here fills the blocks of one page.
"""
