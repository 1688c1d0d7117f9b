"""Base class of specifications, and the registry of families."""

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
from ..errors import require as require
from ..files import replace_file
from ..times import check_each

DIGESTS = ("blake2b", "siphash")  # digests of text; the first is the default for files without one
HASHES = ("h3", "siphash")  # functions that hash a key to the mixed state
UNSET = cast(int, None)  # default value of a required field
MAX_VALUE = 1 << 48  # default maximum of a field
# environment variable: a comma-separated list of modules that define more families
VARIABLE = "LATELY_FAMILIES"
_FAMILIES: "dict[str, type[Specification]]" = {}
_FIRST = ("window",)
_LAST = ("generation", "key_bits", "seed", "lanes", "clear", "hash", "rekey", "digest")


def import_families() -> None:
    for module in filter(None, os.environ.get(VARIABLE, "").split(",")):
        import_module(module)


def required(*, low: int = 1, high: int = MAX_VALUE) -> Any:
    """Declare a required integer field with values from `low` to `high`."""
    return field(default=UNSET, metadata={"required": True, "range": (low, high)})


def optional(default: int = UNSET, *, low: int = 1, high: int | None = MAX_VALUE) -> Any:
    """Declare an optional integer field with values from `low` to `high`, and a `default`."""
    return field(default=default, metadata={"range": (low, high)})


class _Dispatcher(ABCMeta):
    """Metaclass that lets the constructor of an abstract specification build any `family`."""

    def __call__(cls, *arguments: Any, **values: Any) -> Any:
        if arguments or "family" not in values:
            if vars(cls).get("family"):
                return super().__call__(*arguments, **values)
            raise TypeError(f"{cls.__name__} needs the keyword argument 'family'")
        kind: Any = cast("type[Specification]", cls).of_family(values["family"])
        return kind(**kind.fields_of(values))


@dataclass(frozen=True, kw_only=True)
class Specification(ABC, metaclass=_Dispatcher):
    """Parameters of a filter, named as in the filter's paper.

    The constructor of an abstract class has an additional argument ``family``, and returns an
    instance of that family's class. Fields with a default may be omitted. SpecificationError if a
    field violates a rule; the message contains the field, the rule and the value.
    """

    family: ClassVar[str] = ""  # name of the family; empty in abstract classes

    key_bits: int = optional(64, high=4096)
    """Width of a key in bits."""
    seed: int = optional(0, low=0, high=None)
    """Number that selects the hash functions."""
    digest: str = DIGESTS[0]
    """Digest with which software converts text to keys: "blake2b", or "siphash" with keys derived
    from the seed and the secret. See `lately.golden.hash.keys`."""

    def __init_subclass__(cls, *, family: str = "") -> None:
        super().__init_subclass__()
        if family:
            cls.family = family
            _FAMILIES[family] = cls

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.default is None:
                if "required" in item.metadata:
                    raise SpecificationError(f"{item.name}: required for family {self.family}")
            elif "range" in item.metadata:
                require_integer(item.name, value, *item.metadata["range"])
        self._hold("seed", self.seed < 1 << 64, "must be below 2**64")
        require_digest(self.digest)
        _require_name("hash", getattr(self, "hash", "h3"), HASHES)

    def _hold(self, name: str, condition: bool, rule: str) -> None:
        require(condition, name, rule, getattr(self, name))

    # Properties that other packages use instead of the family name

    kind: ClassVar[str] = ""  # kind of hardware: "ring", "dictionary" or "timing"; empty for none
    part_name: ClassVar[str] = "part"  # name of a part of the memory: "segment", "column" or "part"
    cell_name: ClassVar[str] = "cell"  # name of a unit of the memory: "bit" or "cell"

    @property
    def timed(self) -> bool:
        """Whether the window is a span of time; otherwise it is a number of insertions."""
        return False

    @property
    def keyed(self) -> bool:
        """Whether the hash requires a secret."""
        return getattr(self, "hash", "h3") == "siphash"

    @property
    def lanes(self) -> int:
        """Number of keys that the hardware accepts per cycle."""
        return 1

    @property
    def classes(self) -> int | None:
        """Number of query classes if a table of thresholds determines results; otherwise None."""
        return None

    @property
    def query_field(self) -> str:
        """Name of a query's extra operand: "window", "query_class", or "" if there is none."""
        if not self._asks:
            return ""
        return "window" if self.classes is None else "query_class"

    @property
    def block_units(self) -> int:
        """Number of insertions or time units in one step of a query's window."""
        units: int = getattr(self, self._block_field) if self._block_field else 1
        return units

    @property
    def guaranteed_window(self) -> int:
        """Longest window in which every key is reported, in insertions or time units."""
        longest: int = getattr(self, self._window_field)
        return longest

    @property
    def window_blocks(self) -> int:
        """Longest possible window of a query, in steps of `block_units`."""
        return self.guaranteed_window // self.block_units

    @property
    def slack(self) -> int:
        """Maximum number of insertions or time units by which a report may outlast the window."""
        return self.block_units - 1

    @property
    def mean_false_positive_rate(self) -> float:
        """Mean expected false-positive rate for a full window of distinct keys."""
        raise NotImplementedError(f"family {self.family} has no known false-positive rate")

    @property
    def shape(self) -> str:
        """Short description of the family and the parameters."""
        return self.family

    @property
    def cell_shape(self) -> tuple[int, int, int]:
        """Number of memory parts in hardware, number of cells per part, and bits per cell."""
        raise NotImplementedError(f"family {self.family} has no hardware implementation")

    def query_numbers(
        self, windows: ArrayLike | None, count: int, name: str = "windows"
    ) -> NDArray[np.int64]:
        """Convert query windows to the numbers of blocks that hardware expects, shape (count,).

        A window is rounded up to whole blocks, so that every key in the window is reported. If the
        family has query classes, `windows` contains classes, which are returned unchanged. The
        default is the filter's window or class 0. TypeError or ValueError if a value is out of
        range, or if `windows` is given although queries of the family have neither windows nor
        classes.
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
        high, checked = self.window_blocks * self.block_units, check_each(name, windows, count)
        if (checked > high).any():
            raise ValueError(f"{name}: must be at most {high}, not {checked.max()}")
        blocks: NDArray[np.int64] = -(-checked // self.block_units)
        return blocks

    _block_field: ClassVar[str] = ""  # field with the value of `block_units`; empty if that is 1
    _window_field: ClassVar[str] = "window"
    _asks: ClassVar[bool] = False  # whether queries have a `query_field`

    @classmethod
    def families(cls) -> "dict[str, type[Self]]":
        """Return the class of each imported family that the constructor accepts, by family."""
        if cls.family:
            return {cls.family: cls}
        return {name: kind for name, kind in _FAMILIES.items() if issubclass(kind, cls)}

    @classmethod
    def of_family(cls, family: object) -> "type[Self]":
        """Return the class of a `family`; SpecificationError if the family is unknown."""
        if isinstance(family, str) and family not in _FAMILIES:
            import_families()
        kinds = cls.families()
        rule = f"must be one of {', '.join(kinds)}"
        if family == "pooled-time-limited-apbf":
            rule = "must be apbf, which has the same fields and replaces the pooled filter"
        require(isinstance(family, str) and family in kinds, "family", rule, family)
        return kinds[cast(str, family)]

    @classmethod
    def fields_of(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Select the fields of this family from `values`; all other values must be None."""
        names = cls.field_names()
        rule = f"must not be given for family {cls.family}"
        for name, value in values.items():
            require(name in names or value is None, name, rule, value)
        return {name: value for name, value in values.items() if name in names[1:]}

    @classmethod
    def field_names(cls) -> list[str]:
        """Return the field names of all `families`, in the order of a specification file."""
        kinds: Iterable[type[Specification]] = cls.families().values()
        names = [item.name for kind in kinds for item in fields(kind)]
        inner = [name for name in dict.fromkeys(names) if name not in _FIRST + _LAST]
        first = [name for name in _FIRST if name in names]
        return ["family", *first, *inner, *(name for name in _LAST if name in names)]

    @classmethod
    def required_fields(cls) -> tuple[str, ...]:
        """Return the names of the required fields, in the order of a specification file."""
        needed = {item.name for item in fields(cls) if "required" in item.metadata}
        return tuple(name for name in cls.field_names() if name in needed)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Build a specification from field names and values; refuse unknown names."""
        if not isinstance(values, Mapping):
            kind = type(values).__name__
            raise SpecificationError(f"specification: must be a table of fields, not {kind}")
        family, kind = values.get("family"), cls
        with suppress(SpecificationError):
            kind = cls.of_family(family)
        names = cls.field_names()
        for name, value in values.items():
            if name not in names:
                shown = name if name.isidentifier() else repr(name)
                raise SpecificationError(
                    f"{shown}: unknown field, must be one of {', '.join(kind.field_names())} "
                    f"(value {value!r})"
                )
        kind = cls.of_family(family)
        return kind(**kind.fields_of(values))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not None, in file order; omit the default digest."""
        values = {name: getattr(self, name) for name in self.field_names()}
        if self.digest == DIGESTS[0]:
            del values["digest"]
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """Read a specification from the TOML file at `path`; ignore the table ``plan``, if any.

        SpecificationError if the file is not a specification in TOML; OSError if it cannot be read.
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
        """Write the fields of `to_dict` and the table `plan` to a TOML file at `path`."""
        with replace_file(path) as file:
            file.write((self.toml() + f"plan = {_toml_value(plan)}\n" * bool(plan)).encode())

    @property
    def fingerprint(self) -> bytes:
        """First 8 bytes of the SHA-256 of all fields but `digest`, which hardware does not use."""
        values = {name: value for name, value in self.to_dict().items() if name != "digest"}
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).digest()[:8]

    def toml(self) -> str:
        """Return the fields of `to_dict` as TOML text."""
        return "".join(f"{name} = {_toml_value(value)}\n" for name, value in self.to_dict().items())


def _toml_value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_toml_value(item)}' for key, item in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def require_digest(value: object) -> None:
    _require_name("digest", value, DIGESTS)


def _require_name(field_name: str, value: object, names: tuple[str, ...]) -> None:
    known = isinstance(value, str) and value in names
    require(known, field_name, f"must be one of {', '.join(names)}", value)


def require_integer(name: str, value: object, low: int = 1, high: int | None = None) -> None:
    require(type(value) is int, name, "must be an integer", value)
    number = cast(int, value)
    require(number >= low, name, f"must be at least {low}", value)
    shown = "2**48" if high == MAX_VALUE else high
    require(high is None or number <= high, name, f"must be at most {shown}", value)
