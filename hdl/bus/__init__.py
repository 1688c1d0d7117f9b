"""Units as parts of other people's systems: ports of standard names, and buses."""
