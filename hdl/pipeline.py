"""Pipelines that track the stage of each value and insert registers where necessary."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value

FAN_IN = 4  # number of LUT inputs for which pipelines are cut into steps


class StageError(ValueError):
    """Values of different stages were combined, or a value is needed before its stage."""


def registered(m, value, name, *, reset_less=False, enable=None):
    """Return a value, or a view, delayed by one cycle."""
    register = Signal(value.shape(), name=name, reset_less=reset_less)
    if enable is None:
        m.d.sync += register.eq(value)
    else:
        with m.If(enable):
            m.d.sync += register.eq(value)
    return register


def delayed(m, value, cycles, name, *, reset_less=False):
    for cycle in range(cycles):
        value = registered(m, value, f"{name}{cycle}", reset_less=reset_less)
    return value


def successor(count):
    """Return `count` + 1 without a carry chain, which synthesis would share with slower logic."""
    return Cat(bit ^ count[:index].all() for index, bit in enumerate(count))


def below(value, limit):
    """Return whether `value` is below the constant `limit`, with half the LUTs of a carry chain."""
    if limit >> len(value):
        return Const(1)
    less = Const(0)
    for low in range(0, len(value), FAN_IN):
        digit, part = limit >> low & (1 << FAN_IN) - 1, value[low : low + FAN_IN]
        less = part.matches(*range(digit)) | (part.matches(digit) & less)
    return less


class Staged:
    """A value and the stage of a pipeline at which the value is valid.

    ``&``, ``|``, ``^`` and ``~`` return a value of the same stage; both operands must have the same
    stage. ``[...]`` selects bits, or a member of a view.
    """

    def __init__(self, pipeline, value, stage, name, *, reset_less=False, levels=0):
        self._pipeline = pipeline
        self._reset_less = reset_less
        self._next = None
        self.value = value
        # cycles after the pipeline's input. None for a value that is constant while operations are
        # in flight; such a value may be used at any stage.
        self.stage = stage
        self.name = name  # prefix of the names of the registers that delay the value
        self.levels = levels  # levels of LUTs between the value and the registers before it

    def __repr__(self):
        return f"{self.name} (stage {'any' if self.stage is None else self.stage})"

    def __len__(self):
        return len(Value.cast(self.value))

    def __getitem__(self, part):
        name = f"{self.name}_{part}" if isinstance(part, str | int) else f"{self.name}_part"
        return self._pipeline.combine(name, lambda value: value[part], self)

    def __and__(self, other):
        return self._pipeline.combine(self.name, lambda a, b: a & b, self, other)

    def __or__(self, other):
        return self._pipeline.combine(self.name, lambda a, b: a | b, self, other)

    def __xor__(self, other):
        return self._pipeline.combine(self.name, lambda a, b: a ^ b, self, other)

    def __invert__(self):
        return self._pipeline.combine(self.name, lambda value: ~value, self)

    def at(self, stage):
        """Return the value delayed to a stage; all users of the value share the registers."""
        if self.stage is None:
            return self
        if stage < self.stage:
            raise StageError(f"{self!r} is not available at stage {stage}")
        staged = self
        while staged.stage < stage:
            if staged._next is None:
                staged._next = staged._register()
            staged = staged._next
        return staged

    def settled(self):
        """Return the value from a register, which is added only if logic drives the value."""
        return self.at(self.stage + 1) if self.levels else self

    def _register(self):
        return self._pipeline.register(
            f"{self.name}_{self.stage + 1}",
            lambda value: value,
            self,
            reset_less=self._reset_less,
            root=self.name,
        )


class Draft:
    """Stand-in for a module that discards all statements, to compute only pipeline stages."""

    def __init__(self):
        self.d = self.sync = self.comb = self

    def __iadd__(self, statements):
        return self


class Pipeline:
    """Builds a pipeline in a module from values with known stages.

    The stage of a value is the number of cycles from the input of the pipeline to the value.
    `register` joins values of different stages and delays the earlier values. `combine` and `drive`
    add no registers and reject values of different stages.
    """

    def __init__(
        self,
        m,
        *,
        # levels of LUTs, each of `FAN_IN` inputs, that fit between two registers at the clock that
        # the pipeline is built for
        levels=1,
        enable=None,  # the whole pipeline stalls while this is low
    ):
        self._m = m
        self._levels = levels
        self._enable = enable
        self.latency = 0  # highest stage so far

    def enter(
        self,
        value,
        name,
        *,
        # stage at which it is valid; None if it is constant while operations are in flight
        stage=0,
        # whether the registers that delay the value keep their values during a reset
        reset_less=False,
        levels=0,  # levels of LUTs that the value has passed
    ):
        """Return a value of the module, such as a component's output, as a `Staged` value."""
        if stage is not None:
            self.latency = max(self.latency, stage)
        return Staged(self, value, stage, name, reset_less=reset_less, levels=levels)

    def stage(self, *values):
        """Return the common stage of all values, or None if all values are constant."""
        moving = [value for value in values if value.stage is not None]
        for value in moving[1:]:
            if value.stage != moving[0].stage:
                raise StageError(f"{moving[0]!r} and {value!r} must have the same stage")
        return moving[0].stage if moving else None

    def align(self, *values):
        """Return all values, delayed to the latest stage among them."""
        latest = max((value.stage for value in values if value.stage is not None), default=0)
        return [value.at(latest) for value in values]

    def combine(self, name, function, *values, levels=0):
        """Apply a function to values of the same stage, without a register."""
        stage = self.stage(*values)
        result = function(*(value.value for value in values))
        reset_less = all(value._reset_less for value in values)
        levels += max(value.levels for value in values)
        return self.enter(result, name, stage=stage, reset_less=reset_less, levels=levels)

    def step(self, name, function, *values, reset_less=False):
        """Apply a function of one LUT level; register the result if no further level fits."""
        values = self.align(*values)
        if (levels := max(value.levels for value in values)) == self._levels:
            values = self.align(*(value.settled() for value in values))
            levels = 0
        if levels + 1 == self._levels:
            return self.register(name, function, *values, reset_less=reset_less)
        result = self.combine(name, function, *values, levels=1)
        # A signal, so that all uses share one copy of the logic.
        value = Value.cast(result.value)
        signal = Signal(value.shape(), name=name)
        self._m.d.comb += signal.eq(value)
        return self.enter(
            signal, name, stage=result.stage, reset_less=reset_less, levels=levels + 1
        )

    def register(self, name, function, *values, reset_less=False, root=None):
        """Apply a function and register the result, one stage after the latest value."""
        values = self.align(*values)
        stage = self.stage(*values)
        result = function(*(value.value for value in values))
        if not hasattr(result, "shape"):
            result = Value.cast(result)
        result = registered(self._m, result, name, reset_less=reset_less, enable=self._enable)
        # The register of a constant value is constant too.
        after = None if stage is None else stage + 1
        return self.enter(result, root or name, stage=after, reset_less=reset_less)

    def drive(self, component, **inputs):
        """Connect values of the same stage to inputs of a component, and return this stage."""
        stage = self.stage(*inputs.values())
        self._m.d.comb += [
            getattr(component, name).eq(staged.value) for name, staged in inputs.items()
        ]
        return stage

    def leave(self, *outputs, latency):
        """Raise StageError unless all outputs have the stage `latency`."""
        stage = self.stage(*outputs)
        if stage != latency:
            raise StageError(f"latency: must be {stage}, the stage of the outputs, not {latency}")

    def all_of(self, name, flags, *, steps=0, reset_less=False):
        """Return whether all flags are set.

        This takes ``ceil(log4(len(flags)))`` steps, but at least `steps`.
        """
        number = 0
        while len(flags) > 1 or number < steps:
            flags = self.step(
                f"{name}_all{number}",
                lambda bits: Cat(
                    bits[at : at + FAN_IN].all() for at in range(0, len(bits), FAN_IN)
                ),
                flags,
                reset_less=reset_less,
            )
            number += 1
        return flags

    def select(self, values, number, name, *, reset_less=True):
        """Return the value with the index `number`; each step decodes one bit of the index."""
        self.stage(number, *values)
        while len(values) > 1:
            pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
            size = len(values)
            values = [
                self.step(
                    f"{name}{size}_{index}",
                    lambda digits, low, high: Mux(digits[0], high, low),
                    number,
                    pair[0],
                    pair[-1],
                    reset_less=reset_less,
                )
                for index, pair in enumerate(pairs)
            ]
            number = self.step(
                f"{name}_of_{size}", lambda digits: digits[1:], number, reset_less=reset_less
            )
        return values[0]
