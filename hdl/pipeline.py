"""Pipelines that track the stage of each value and insert the registers."""

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from .latencies import FAN_IN


class StageError(ValueError):
    """Values of different stages were combined, or a value is needed before its stage."""


def registered(m, value, name, *, reset_less=False, enable=None):
    """Return a value, or a view, delayed by one cycle.

    Parameters
    ----------
    m : Module
        Gets the register.
    value : Value or View
    name : str
        Name of the register.
    reset_less : bool
        Whether the register keeps its value during a reset.
    enable : Value, optional
        The register keeps its value while this is low.
    """
    register = Signal(value.shape(), name=name, reset_less=reset_less)
    if enable is None:
        m.d.sync += register.eq(value)
    else:
        with m.If(enable):
            m.d.sync += register.eq(value)
    return register


def delayed(m, value, cycles, name, *, reset_less=False):
    """Return a value, or a view, delayed by `cycles` cycles.

    Parameters
    ----------
    m : Module
        Gets the registers.
    value : Value or View
    cycles : int
    name : str
        Prefix of the registers' names.
    reset_less : bool
        Whether the registers keep their values during a reset.
    """
    for cycle in range(cycles):
        value = registered(m, value, f"{name}{cycle}", reset_less=reset_less)
    return value


def successor(count):
    """Return `count` plus 1, modulo ``2**len(count)``.

    Uses LUTs instead of a carry chain. Otherwise synthesis would share the slow sum with other
    logic that depends on the bits of the count.
    """
    return Cat(bit ^ count[:place].all() for place, bit in enumerate(count))


def below(value, limit):
    """Return whether `value` is below the constant `limit`, in LUTs alone.

    The carry chain that synthesis makes of ``<`` takes twice as many LUTs.
    """
    if limit >> len(value):
        return Const(1)
    less = Const(0)
    for low in range(0, len(value), FAN_IN):
        digit, part = limit >> low & (1 << FAN_IN) - 1, value[low : low + FAN_IN]
        less = part.matches(*range(digit)) | (part.matches(digit) & less)
    return less


class Staged:
    """A value and the stage of a pipeline at which it is valid.

    `Pipeline` makes these. ``&``, ``|``, ``^`` and ``~`` return a value of the same stage; both
    operands must have the same stage. ``[...]`` selects bits, or a member of a view.

    Attributes
    ----------
    value : Value or View
    stage : int or None
        Cycles after the pipeline's input. None for a value that is constant while operations are in
        flight; such a value may be used at any stage.
    name : str
        Prefix of the names of the registers that delay the value.
    reset_less : bool
        Whether these registers keep their values during a reset.
    levels : int
        Levels of LUTs between the value and the registers before it.
    """

    def __init__(self, pipeline, value, stage, name, *, reset_less=False, levels=0):
        self._pipeline = pipeline
        self._reset_less = reset_less
        self._next = None
        self.value = value
        self.stage = stage
        self.name = name
        self.levels = levels

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
        """Return the value at a stage, delayed by the necessary registers.

        Registers are shared: two uses at the same stage get the same register.

        Raises
        ------
        StageError
            If the value is valid only after that stage.
        """
        if self.stage is None:
            return self
        if stage < self.stage:
            raise StageError(f"{self!r} comes too late for stage {stage}")
        staged = self
        while staged.stage < stage:
            if staged._next is None:
                staged._next = staged._register()
            staged = staged._next
        return staged

    def settled(self):
        """Return the value from a register, without a second one if a register drives it."""
        return self.at(self.stage + 1) if self.levels else self

    def _register(self):
        return self._pipeline.register(
            f"{self.name}_{self.stage + 1}",
            lambda value: value,
            self,
            reset_less=self._reset_less,
            root=self.name,
        )


class Pipeline:
    """Builds a pipeline in a module from values with known stages.

    The stage of a value is the number of cycles from the input of the pipeline to the value.
    `register` joins values of different stages and delays the earlier values. `combine` and
    `drive` add no registers and reject values of different stages. The latency follows from the
    stage of the output.

    Parameters
    ----------
    m : Module
        Gets the registers.
    levels : int
        Levels of LUTs, each of `lately.hdl.latencies.FAN_IN` inputs, that fit between
        two registers at the clock that the pipeline is built for.
    enable : Value, optional
        The whole pipeline stalls while this is low.

    Attributes
    ----------
    latency : int
        Highest stage so far.
    """

    def __init__(self, m, *, levels=1, enable=None):
        self._m = m
        self._levels = levels
        self._enable = enable
        self.latency = 0

    def enter(self, value, name, *, stage=0, reset_less=False, levels=0):
        """Return a value of the module, such as an output of a component, with a stage.

        Parameters
        ----------
        value : Value or View
        name : str
        stage : int or None
            Stage at which it is valid; None if it is constant while operations are in flight.
        reset_less : bool
            Whether the registers that delay the value keep their values during a reset.
        levels : int
            Levels of LUTs that the value has passed.
        """
        if stage is not None:
            self.latency = max(self.latency, stage)
        return Staged(self, value, stage, name, reset_less=reset_less, levels=levels)

    def stage(self, *values):
        """Return the common stage of all values; None if all values are steady.

        Raises
        ------
        StageError
            If the stages differ. The message names two values with their stages.
        """
        moving = [value for value in values if value.stage is not None]
        for value in moving[1:]:
            if value.stage != moving[0].stage:
                raise StageError(f"{moving[0]!r} and {value!r} must be of one stage")
        return moving[0].stage if moving else None

    def align(self, *values):
        """Return all values, delayed to the latest of their stages."""
        latest = max((value.stage for value in values if value.stage is not None), default=0)
        return [value.at(latest) for value in values]

    def combine(self, name, function, *values, levels=0):
        """Return a function of values, without a register.

        Parameters
        ----------
        name : str
            Name of the result.
        function : callable
            Takes plain values; returns one value.
        values : Staged
            Values of the same stage.
        levels : int
            Levels of LUTs of the function.
        """
        stage = self.stage(*values)
        result = function(*(value.value for value in values))
        reset_less = all(value._reset_less for value in values)
        levels += max(value.levels for value in values)
        return self.enter(result, name, stage=stage, reset_less=reset_less, levels=levels)

    def step(self, name, function, *values, reset_less=False):
        """Return a function of values that takes one level of LUTs.

        The result is registered if a stage has no further level. So the clock frequency determines
        the number of registers in a chain of steps.

        Parameters
        ----------
        name, function, values, reset_less
            As for `register`.
        """
        values = self.align(*values)
        if (levels := max(value.levels for value in values)) == self._levels:
            values = self.align(*(value.settled() for value in values))
            levels = 0
        if levels + 1 == self._levels:
            return self.register(name, function, *values, reset_less=reset_less)
        result = self.combine(name, function, *values, levels=1)
        # As a signal, so that its logic occurs once for all its uses.
        value = Value.cast(result.value)
        signal = Signal(value.shape(), name=name)
        self._m.d.comb += signal.eq(value)
        return self.enter(
            signal, name, stage=result.stage, reset_less=reset_less, levels=levels + 1
        )

    def register(self, name, function, *values, reset_less=False, root=None):
        """Return a registered function of values, one stage after the latest value.

        Parameters
        ----------
        name : str
            Name of the register.
        function : callable
            Takes plain values; returns one value.
        values : Staged
            Values of earlier stages are delayed.
        reset_less : bool
            Whether the register keeps its value during a reset.
        root : str, optional
            Name of the result; by default the name of the register.
        """
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
        """Connect values of the same stage to inputs of a component.

        Parameters
        ----------
        component : Component
        inputs : Staged
            By the names of the members.

        Returns
        -------
        int
            Stage of the inputs.

        Raises
        ------
        StageError
            If the stages differ.
        """
        stage = self.stage(*inputs.values())
        self._m.d.comb += [
            getattr(component, name).eq(staged.value) for name, staged in inputs.items()
        ]
        return stage

    def leave(self, *outputs, latency):
        """Check that values leave the pipeline together, after the stated latency.

        Parameters
        ----------
        outputs : Staged
        latency : int
            Latency that the component states before elaboration.

        Raises
        ------
        StageError
            If the stages differ, or are not `latency`.
        """
        stage = self.stage(*outputs)
        if stage != latency:
            raise StageError(f"{outputs[0]!r} leaves, but the latency is stated as {latency}")

    def all_of(self, name, flags, *, steps=0, reset_less=False):
        """Return whether all flags are set, in ``ceil(log4(len(flags)))`` steps.

        Parameters
        ----------
        name : str
            Prefix of the registers' names.
        flags : Staged
        steps : int
            Minimum number of steps.
        reset_less : bool
            Whether the registers keep their values during a reset.
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
        """Return one of the values, by one binary digit of the number per step.

        Parameters
        ----------
        values : list of Staged
            Values of the same width and stage.
        number : Staged
            Index of the value, lowest digit first; of the same stage.
        name : str
            Prefix of the registers' names.
        reset_less : bool
            Whether the registers keep their values during a reset.

        Raises
        ------
        StageError
            If the index and the values have different stages.
        """
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
