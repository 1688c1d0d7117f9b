"""Parameters of filters: the fields of their specification, checked, as attributes."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .atomic import Cached, ReadOnly
from .convenience import PythonProtocol
from .errors import SpecificationError
from .hash.digests import DIGESTS, KeyDigest
from .hash.functions import KeyHash
from .hash.keys import Keys, check_keys
from .hash.siphash import check_secret
from .spec.base import Specification, require_digest


class Parameterised(PythonProtocol):
    """Mixin of `Filter` for the parameters of the constructor."""

    specification: ClassVar[type[Specification]] = Specification
    _chooser: ClassVar[str] = "for_window(window, fpr)"

    _fixed: ClassVar[tuple[str, ...]] = ()
    """Attributes that users cannot change, if these are not the fields of the specification."""

    __signature__: ClassVar[inspect.Signature]

    seed: int
    key_bits: int
    digest: str
    _hash: KeyHash
    _digest_secret = 0

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__signature__ = inspect.Signature(cls._signature())
        for name in cls._fixed or [item.name for item in fields(cls.specification)]:
            if not isinstance(getattr(cls, name, None), property):
                setattr(cls, name, ReadOnly(name))

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        """Return the parameters of the constructor: the fields of the specification."""
        shared: list[inspect.Parameter] = []
        own: list[inspect.Parameter] = []
        for item in fields(cls.specification):
            needed = item.metadata.get("required")
            default = inspect.Parameter.empty if needed else item.default
            parameter = inspect.Parameter(
                item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=item.type
            )
            (shared if item.name in ("key_bits", "seed", "digest") else own).append(parameter)
        return own + [shared[place] for place in (1, 0, 2)]

    @classmethod
    def _bound(cls, parameters: dict[str, Any]) -> inspect.BoundArguments:
        """Return parameters by their names; TypeError if one is missing or unknown."""
        try:
            return cls.__signature__.bind(**parameters)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}{cls._hint()}") from None

    @classmethod
    def _hint(cls) -> str:
        """Return the end of a message about parameters: the method that chooses them, if any."""
        chosen = any("_sizes" in vars(kind) for kind in cls.__mro__ if kind is not PythonProtocol)
        return f"; {cls.__name__}.{cls._chooser} chooses them" if chosen else ""

    @classmethod
    def _for_keys(
        cls, keys: int, fpr: float, given: dict[str, int], options: Mapping[str, Any]
    ) -> Self:
        """Build a filter for a window of `keys`; `given` has the window if it is a parameter.

        Raises
        ------
        TypeError, SpecificationError
            If an option is unknown or out of its range, or if no size is large enough.
        """
        cls.__signature__.bind_partial(**options)
        try:
            sizes = {**cls._sizes(keys, fpr), **given}
            return cls(**sizes, **{"digest": DIGESTS[1], **options})
        except OverflowError:
            pass
        except SpecificationError as error:
            field = str(error).partition(":")[0]
            chosen = {*cls.specification.field_names()} - given.keys() - options.keys() - {"window"}
            # An error in another field may be caused by an option.
            if field not in chosen or options.keys() - {"seed", "key_bits"}:
                raise
        raise SpecificationError(
            f"window: must have fewer keys, or fpr must be larger, for a {cls.__name__}, "
            f"not {keys} keys at {fpr}"
        )

    def _take(self, parameters: dict[str, Any]) -> None:
        """Check each parameter, and make it an attribute."""
        bound = self._bound(parameters)
        bound.apply_defaults()
        for item in fields(self.specification):
            name, value = item.name, bound.arguments[item.name]
            derived = value is None and item.default is None and "required" not in item.metadata
            if "range" in item.metadata and not derived:
                least, most = item.metadata["range"]
                require_count(name, value, least=least, most=most)
                value = int(value)
            # A property of this name reads the private attribute.
            kept = isinstance(getattr(type(self), name, None), property)
            setattr(self, f"_{name}" if kept else name, value)
        require_digest(self.digest)

    def _prepare(self) -> None:
        """Check parameters together, derive those that are None, and make the hash functions."""

    def _make_hash(self, sizes: Sequence[int], functions: int = 1) -> None:
        """Make the hash functions, each with an index in ``range(size)`` for each of `sizes`."""
        self._hash = KeyHash(
            key_bits=self.key_bits, sizes=sizes, functions=functions, seed=self.seed
        )

    # Keys

    @Cached
    def _key_digest(self) -> KeyDigest:
        return KeyDigest(self.key_bits, self.digest, self.seed, self._digest_secret)

    def _digest_under(self, secret: int) -> None:
        """Key the digest of text with the first `secret`, if the digest takes a key."""
        self._digest_secret = check_secret(secret) if self.digest == "siphash" else 0
        vars(self).pop("_key_digest", None)
        if self._engine is not None:
            self._lend_digest()

    def _lend_digest(self) -> None:
        """Let the extension have the digest of text, for single keys; it calls this."""
        self._engine.digest_by(self._key_digest.keys)

    def _words(self, keys: Keys) -> NDArray[np.uint64]:
        """Return the words of keys in any form, shape (n, words); as `check_keys`."""
        return check_keys(keys, self._key_digest)

    # Specification

    @property
    def spec(self) -> Specification:
        """Specification of the filter; `from_spec` builds an empty filter from it."""
        return self.specification(**self.parameters)

    @property
    def storage_bits(self) -> int:
        """Bits of the filter, counted as its paper counts them."""
        spec: Any = self.spec
        return int(spec.storage_bits)

    @classmethod
    def from_spec(cls, spec: Specification) -> Self:
        """Build the filter that `spec`, of the same family, describes; errors as for `Filter`."""
        cls._check_family(spec)
        values = spec.to_dict()
        del values["family"]
        return cls(**values)

    @classmethod
    def _check_family(cls, spec: Specification) -> None:
        family = cls.specification.family
        if not isinstance(spec, Specification):
            raise TypeError(f"spec: must be a specification, not {spec!r}")
        if spec.family != family:
            raise SpecificationError(
                f"family: must be {family} for {cls.__name__}, not {spec.family!r}"
            )


def require_count(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse a parameter that is not an integer from `least` to `most`; None means no maximum.

    Raises
    ------
    TypeError
        If the `value` of the parameter `name` is not an integer.
    SpecificationError
        If it is less than `least`, or more than `most`.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name}: must be an integer, not {value!r}")
    if value < least:
        raise SpecificationError(f"{name}: must be at least {least}, not {value}")
    if most is not None and value > most:
        raise SpecificationError(f"{name}: must be at most {most}, not {value}")
