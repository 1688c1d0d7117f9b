"""Exceptions, argument checks that raise exceptions, and message texts."""

from collections.abc import Iterable
from numbers import Integral, Real


class LatelyError(Exception):
    """Base class of errors due to inputs or the environment; the message is a single line."""


class SpecificationError(LatelyError, ValueError):
    """A field of a specification violates a rule.

    The message contains the field, the rule and the value.
    """


class RekeyError(LatelyError, RuntimeError):
    """A filter cannot accept a new secret yet, because both of its current secrets are in use."""


class StateFileError(LatelyError, ValueError):
    """A file is damaged, or is not a saved filter state."""


def require(condition: bool, name: str, rule: str, value: object) -> None:
    """Raise SpecificationError with the field's name, rule and value if the condition is false."""
    if not condition:
        raise SpecificationError(f"{name}: {rule}, not {value!r}")


def require_count(name: str, value: object, *, low: int = 1, high: int | None = None) -> None:
    """Require an argument to be an integer from `low` to `high`; None means no maximum."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}: must be an integer, not {value!r}")
    number = int(value)
    require(number >= low, name, f"must be at least {low}", number)
    require(high is None or number <= high, name, f"must be at most {high}", number)


def require_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}: must be a number, not {value!r}")


def unknown_name(kind: str, name: object, known: Iterable[str]) -> str:
    # Imported here, because every command imports this module.
    from difflib import get_close_matches

    near = " or ".join(get_close_matches(str(name), known))
    hint = f"did you mean {near}? See" if near else "see"
    return f"{kind}: unknown {name!r}; {hint} `lately list {kind}s`"


def install_hint(extra: str) -> str:
    return f"pip install '.[{extra}]'" if extra else "pip install ."
