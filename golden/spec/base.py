"""Specifications: the base of all families, and the registry of families."""

import hashlib
import json
import os
from abc import ABC, ABCMeta
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SpecificationError
from ..files import replace_file
from ..hash.digests import DIGESTS, KeyDigest
from ..hash.functions import HASHES
from ..times import check_each

UNSET = cast(int, None)
"""Default value of a required field."""

MOST = 1 << 48
"""Largest value of a field that has no limit of its own."""

VARIABLE = "LATELY_FAMILIES"
"""Environment variable with a comma-separated list of modules that define families."""

_FAMILIES: "dict[str, type[Specification]]" = {}
_FIRST = ("window",)
_LAST = ("generation", "key_bits", "seed", "lanes", "clear", "hash", "rekey", "digest")


def import_families() -> None:
    """Import the modules that the environment names, for unknown families and the planner.

    Errors: as `import_module`.
    """
    for module in filter(None, os.environ.get(VARIABLE, "").split(",")):
        import_module(module)


def required(*, least: int = 1, most: int = MOST) -> Any:
    """Declare a required integer field from `least` to `most`."""
    return field(default=UNSET, metadata={"required": True, "range": (least, most)})


def optional(default: int = UNSET, *, least: int = 1, most: int | None = MOST) -> Any:
    """Declare an optional integer field from `least` to `most`, with a `default`."""
    return field(default=default, metadata={"range": (least, most)})


class _Dispatcher(ABCMeta):
    """Lets the constructor of an abstract specification build a given family."""

    def __call__(cls, *arguments: Any, **values: Any) -> Any:
        if arguments or "family" not in values:
            if vars(cls).get("family"):
                return super().__call__(*arguments, **values)
            raise TypeError(f"{cls.__name__} needs the keyword argument 'family'")
        kind: Any = cast("type[Specification]", cls).of_family(values["family"])
        return kind(**kind.own(values))


@dataclass(frozen=True, kw_only=True)
class Specification(ABC, metaclass=_Dispatcher):
    """Parameters of a filter, in the terms of its paper.

    The constructor of an abstract class takes ``family`` and returns a
    specification of this family's class. Omitted fields get the default of the paper, if the paper
    has one.

    Raises
    ------
    SpecificationError
        If a field breaks a rule; the message names the field, the rule and the value.
    """

    family: ClassVar[str] = ""
    """Family that the class describes; empty in abstract classes."""

    key_bits: int = optional(64, most=4096)
    """Width of a key."""
    seed: int = optional(0, least=0, most=None)
    """Selects the hash functions."""
    digest: str = DIGESTS[0]
    """Digest that turns text into keys, in software: "blake2b", or "siphash" with keys from the
    seed and the secret. See `lately.golden.hash.digests`."""

    def __init_subclass__(cls, *, family: str = "") -> None:
        super().__init_subclass__()
        if family:
            cls.family = family
            _FAMILIES[family] = cls

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.default is None:
                needed = "required" in item.metadata
                require(not needed, item.name, f"must be given for family {self.family}", None)
            elif "range" in item.metadata:
                require_integer(item.name, value, *item.metadata["range"])
        self._hold("seed", self.seed < 1 << 64, "must be below 2**64")
        require_digest(self.digest)
        chosen = getattr(self, "hash", "h3")
        known = isinstance(chosen, str) and chosen in HASHES
        require(known, "hash", f"must be one of {', '.join(HASHES)}", chosen)

    def _hold(self, name: str, condition: bool, rule: str) -> None:
        """Refuse the value of a field unless a condition holds."""
        require(condition, name, rule, getattr(self, name))

    # Properties that upper layers read instead of the family

    kind: ClassVar[str] = ""
    """Kind of hardware: "ring", "dictionary" or "timing"; empty for all others."""

    part_name: ClassVar[str] = "part"
    """Word for one of the equal parts of the memory: "segment", "column" or "part"."""

    cell_name: ClassVar[str] = "cell"
    """Word for the unit of the memory: "bit" or "cell"."""

    @property
    def timed(self) -> bool:
        """Whether the window is a span of time; otherwise it counts insertions."""
        return False

    @property
    def keyed(self) -> bool:
        """Whether the hash takes a secret."""
        return getattr(self, "hash", "h3") == "siphash"

    @property
    def lanes(self) -> int:
        """Keys that the hardware accepts per cycle."""
        return 1

    @property
    def classes(self) -> int | None:
        """Number of query classes, if a table of thresholds determines answers; otherwise None."""
        return None

    @property
    def query_field(self) -> str:
        """Field of a query: "window" or "query_class"; empty if a query has none."""
        if not self._asks:
            return ""
        return "window" if self.classes is None else "query_class"

    @property
    def block_units(self) -> int:
        """Insertions or units of time in one step of a query's window."""
        units: int = getattr(self, self._block_field) if self._block_field else 1
        return units

    @property
    def guaranteed_window(self) -> int:
        """Longest window for which every key is reported, in insertions or units of time."""
        longest: int = getattr(self, self._window_field)
        return longest

    @property
    def window_blocks(self) -> int:
        """Longest window of a query, in steps of `block_units`."""
        return self.guaranteed_window // self.block_units

    @property
    def slack(self) -> int:
        """Insertions or units of time past the window in which a key may still be reported."""
        return self.block_units - 1

    @property
    def mean_false_positive_rate(self) -> float:
        """Mean expected false-positive rate with a full window of distinct keys."""
        raise NotImplementedError(f"family {self.family} has no known rate")

    @property
    def shape(self) -> str:
        """Short description of family and parameters."""
        return self.family

    @property
    def cell_shape(self) -> tuple[int, int, int]:
        """Parts of the memory, cells per part, and bits per cell in hardware."""
        raise NotImplementedError(f"family {self.family} has no hardware")

    def query_numbers(
        self, windows: ArrayLike | None, count: int, name: str = "windows"
    ) -> NDArray[np.int64]:
        """Return the numbers in hardware queries, shape (count,): blocks, or the given classes.

        The `windows` have shape (count,) or (), and are called `name` in messages. By default they
        are the filter's window or class 0. A window is rounded up to whole blocks, so that no key
        of it is missed. TypeError or ValueError if a value does not fit, or queries have no window.
        """
        if not self.query_field:
            if windows is not None:
                raise ValueError(f"windows: must not be given for family {self.family}")
            return np.zeros(count, np.int64)
        if self.classes is not None:
            numbers = check_each("classes", 0 if windows is None else windows, count)
            if len(wrong := numbers[numbers >= self.classes]):
                raise ValueError(f"classes: must be below {self.classes}, not {wrong[0]}")
            return numbers
        if windows is None:
            return np.full(count, self.window_blocks)
        most, checked = self.window_blocks * self.block_units, check_each(name, windows, count)
        if (checked > most).any():
            raise ValueError(f"{name}: must be at most {most}, not {checked.max()}")
        blocks: NDArray[np.int64] = -(-checked // self.block_units)
        return blocks

    _block_field: ClassVar[str] = ""
    """Name of the field that holds `block_units`, if it is not 1."""

    _window_field: ClassVar[str] = "window"
    """Name of the field that holds the window."""

    _asks: ClassVar[bool] = False
    """Whether a query has a `query_field`."""

    # Families

    @classmethod
    def families(cls) -> "dict[str, type[Self]]":
        """Families that the constructor accepts, with their classes.

        Only families whose modules are imported; `lately.golden.Specification` imports all.
        """
        if cls.family:
            return {cls.family: cls}
        return {name: kind for name, kind in _FAMILIES.items() if issubclass(kind, cls)}

    @classmethod
    def of_family(cls, family: object) -> "type[Self]":
        """Return the class of a `family` from `families`; errors as `require`."""
        if isinstance(family, str) and family not in _FAMILIES:
            import_families()
        kinds = cls.families()
        rule = f"must be one of {', '.join(kinds)}"
        if family == "pooled-time-limited-apbf":
            rule = "must be apbf, with the same fields, which replaces the pooled filter"
        require(isinstance(family, str) and family in kinds, "family", rule, family)
        return kinds[cast(str, family)]

    @classmethod
    def own(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of this family from `values`, by name.

        Other values must be None. Errors: as `require`.
        """
        names = cls.field_names()
        rule = f"must not be given for family {cls.family}"
        for name, value in values.items():
            require(name in names or value is None, name, rule, value)
        return {name: value for name, value in values.items() if name in names[1:]}

    @classmethod
    def field_names(cls) -> list[str]:
        """Names of the fields of all `families`, in the order of a file."""
        kinds: Iterable[type[Specification]] = cls.families().values()
        names = [item.name for kind in kinds for item in fields(kind)]
        inner = [name for name in dict.fromkeys(names) if name not in _FIRST + _LAST]
        first = [name for name in _FIRST if name in names]
        return ["family", *first, *inner, *(name for name in _LAST if name in names)]

    @classmethod
    def required_fields(cls) -> tuple[str, ...]:
        """Names of the required fields, in the order of a file."""
        needed = {item.name for item in fields(cls) if "required" in item.metadata}
        return tuple(name for name in cls.field_names() if name in needed)

    # Text

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a specification from a mapping of field names to `values`; refuse unknown names.

        Errors: as `require`.
        """
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise SpecificationError(f"specification: must be a table of fields, not {kind}")
        family, own = values.get("family"), cls
        with suppress(SpecificationError):
            own = cls.of_family(family)
        names = cls.field_names()
        for name, value in values.items():
            if name not in names:
                shown = name if name.isidentifier() else repr(name)
                raise SpecificationError(
                    f"{shown}: unknown field, must be one of {', '.join(own.field_names())} "
                    f"(value {value!r})"
                )
        kind = cls.of_family(family)
        return kind(**kind.own(values))

    def to_dict(self) -> dict[str, Any]:
        """Fields that are set, in order; the digest only if it is not BLAKE2b."""
        values = {name: getattr(self, name) for name in self.field_names()}
        if self.digest == DIGESTS[0]:
            del values["digest"]
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Read a TOML file with the fields at `path`; its table ``plan`` is for commands.

        Raises
        ------
        SpecificationError
            If the file is not TOML, or its content is not a specification.
        OSError
            If the file cannot be read.
        """
        import tomllib

        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
            values.pop("plan", None)
        except (ValueError, RecursionError) as error:
            # Also for invalid UTF-8, integers with thousands of digits, and deep nesting.
            raise SpecificationError(f"{os.fspath(path)}: must be a TOML file: {error}") from None
        try:
            return cls.from_dict(values)
        except SpecificationError as error:
            raise SpecificationError(f"{os.fspath(path)}: {error}") from None

    def to_toml(
        self, path: str | os.PathLike[str], *, plan: Mapping[str, Any] | None = None
    ) -> None:
        """Write a TOML file at `path` with the fields that are set, and the table `plan`."""
        with replace_file(path) as file:
            file.write((self.toml() + f"plan = {_toml_value(plan)}\n" * bool(plan)).encode())

    @property
    def fingerprint(self) -> bytes:
        """First 8 bytes of SHA-256 over the fields that affect hardware: all except the digest."""
        values = {name: value for name, value in self.to_dict().items() if name != "digest"}
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).digest()[:8]

    def key_digest(self, secret: int = 0) -> KeyDigest:
        """Return the digest that turns text into keys, for a filter with this `secret`."""
        return KeyDigest(self.key_bits, self.digest, self.seed, secret)

    def toml(self) -> str:
        """Return the fields that are set, as TOML."""
        return "".join(f"{name} = {_toml_value(value)}\n" for name, value in self.to_dict().items())


def _toml_value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml_value(own)}' for key, own in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def require(condition: bool, name: str, rule: str, value: object) -> None:
    """Refuse the value of a field unless a condition holds.

    Raises
    ------
    SpecificationError
        If the condition is false; the message has the name, the rule and the value.
    """
    if not condition:
        raise SpecificationError(f"{name}: {rule}, not {value!r}")


def require_digest(value: object) -> None:
    """Refuse a value that does not name a digest; errors as `require`."""
    known = isinstance(value, str) and value in DIGESTS
    require(known, "digest", f"must be one of {', '.join(DIGESTS)}", value)


def require_integer(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Refuse the value of a field unless it is an integer from `least` to `most`."""
    require(type(value) is int, name, "must be an integer", value)
    number = cast(int, value)
    require(number >= least, name, f"must be at least {least}", value)
    shown = "2**48" if most == MOST else most
    require(most is None or number <= most, name, f"must be at most {shown}", value)
