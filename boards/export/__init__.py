"""Units as files for projects in other languages."""
