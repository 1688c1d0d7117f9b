"""Errors whose text is meant for the person at the terminal."""


class LatelyError(Exception):
    """Something outside the program is not as required; the message is one line."""


class SpecificationError(LatelyError, ValueError):
    """A field of a filter specification breaks a rule.

    The message names the field, the rule and the value.
    """


class RekeyError(LatelyError, RuntimeError):
    """A filter cannot take a secret yet: it still needs the two that it has."""


class StateFileError(LatelyError, ValueError):
    """A file is not the saved state of a filter, or is damaged."""


def install_hint(extra: str) -> str:
    """Return the command that installs an `extra` of the package, in its checkout."""
    return f"pip install '.[{extra}]'"
