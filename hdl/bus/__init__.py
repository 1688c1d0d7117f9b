"""Units with standard ports and buses, for use in other systems."""
