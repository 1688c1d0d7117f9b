"""The mutation campaign: operators, the changed module in processes, verdicts, and the table."""

from dataclasses import replace

import pytest
from mutation.__main__ import main
from mutation.campaign import Results, equivalents, judge, key, makes_hardware, modules, read
from mutation.defects import LIVES, Defect, table
from mutation.killers import (
    FAILED,
    PROOF,
    UNIT,
    Change,
    EndlessRunError,
    distances,
    module_name,
    nearest,
)
from mutation.operators import candidates, draw, mutants

from lately.sim.bench.runs import UNITS
from lately.sim.proofs.catalogue import PROOFS

HARDWARE = """\
class Counter:
    def __init__(self, *, width=3):
        super().__init__({"full": Out(1)})
        self._width = width

    def elaborate(self, platform):
        m = Module()
        count = Signal(range(self._width), init=7)
        with m.If(self.step & ~self.stall):
            m.d.sync += count.eq(Mux(self.down, count - 1, count + 1))
        m.d.comb += [self.full.eq(count == 0), self.busy.eq(count != 0)]
        return m
"""


def changes(source):
    """Return the changes of a source by their names: the old and the new text."""
    changed = mutants("hdl/counter.py", source)
    return {
        mutant.name.removeprefix("hdl/counter.py:"): (mutant.old, mutant.new) for mutant in changed
    }


def test_changes_of_hardware():
    texts = changes(HARDWARE)
    assert texts["8:reset:0"] == ("7", "0")
    assert texts["8:width:0"] == ("self._width", "(self._width) - 1")
    assert texts["9:negation:0"] == ("self.step & ~self.stall", "(self.step & ~self.stall) == 0")
    assert texts["9:operand:0"] == ("self.step & ~self.stall", "(self.step)")
    assert texts["9:sign:0"] == ("~self.stall", "(self.stall)")
    assert texts["10:domain:0"] == ("m.d.sync", "m.d.comb")
    assert texts["10:exchange:1"][1] == "Mux(self.down, count + 1, count - 1)"
    assert texts["10:calculation:0"] == ("count - 1", "(count + 1)")
    assert texts["11:assignment:1"] == ("self.busy.eq(count != 0)", "*()")
    assert texts["11:comparison:0"] == ("count == 0", "(count != 0)")
    assert texts["2:constant:1"] == ("3", "2")
    # Where nothing works, a failure has no meaning.
    assert not [name for name in texts if name.startswith(("3:statement", "4:statement"))]
    homes = {mutant.function for mutant in mutants("hdl/counter.py", HARDWARE)}
    assert homes == {"Counter.__init__", "Counter.elaborate"}


def test_each_change_has_a_name_and_can_be_compiled():
    for path in ("hdl/queue.py", "hdl/bus/buses.py", "golden/times.py"):
        changed = mutants(path, read(path))
        assert len({mutant.name for mutant in changed}) == len(changed) > 20
        assert all(mutant.source != read(path) for mutant in changed)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x: Literal[1]) -> Literal[2]:\n    pass\n", []),
        ("if TYPE_CHECKING:\n    a = 1\n", []),
        ('raise ValueError(f"{x + 4}, not 5")\n', []),
        ("registered(m, reset_less=True)\n", ["1:statement:0"]),
        ("f(reset_less=False)\n", ["1:statement:0", "1:boolean:0"]),
    ],
)
def test_texts_types_and_resets_too_many_are_left_alone(source, names):
    assert [*changes(source)] == names


def test_draw_takes_functions_before_operators():
    changed = mutants("hdl/queue.py", read("hdl/queue.py"))
    functions = {mutant.function for mutant in changed}
    drawn = draw(changed, seed=5, count=len(functions) + 2)
    assert {mutant.function for mutant in drawn} == functions
    assert len({(mutant.function, mutant.operator) for mutant in drawn}) == len(drawn)
    assert (
        drawn == draw(changed, seed=5, count=len(drawn)) != draw(changed, seed=6, count=len(drawn))
    )
    assert len(draw(changed[:3], seed=5, count=100)) <= 3


def test_nearest_tests():
    assert {"golden/times.py", "hdl/queue.py", "hdl/frontend/front.py"} <= {*modules()}
    assert distances("golden/ring/rings.py")["tests/golden/test_filters.py"] == 2
    assert distances("hdl/queue.py")["tests/hdl/test_hdl.py"] == 1
    assert "tests/golden/test_spec.py" not in distances("hdl/queue.py")
    assert next(nearest("hdl/target_clocks.py")) == "tests/hdl/test_target_clocks.py"


SCRIPT = "import inspect, lately.golden.times as m; print(m.VALUE, inspect.getsource(m)[:3])"
AGAIN = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SCRIPT!r}])"


@pytest.mark.parametrize("code", [SCRIPT, AGAIN])
def test_changed_module_is_imported_in_processes(code):
    """Processes that a process starts import the changed module, too; its path stays true."""
    assert Change("golden/times.py", "VALUE = 5\n").run(["-c", code], 60) == (0, '5 """\n')


def test_endless_process_is_stopped():
    with pytest.raises(EndlessRunError):
        Change("golden/times.py", "").run(["-c", "while True: pass"], 0.5)


CLOCKS = "tests/hdl/test_target_clocks.py"
CHANGE = Change("hdl/target_clocks.py", read("hdl/target_clocks.py"))


@pytest.mark.parametrize(
    ("test", "source", "failed"),
    [
        (CLOCKS, read("hdl/target_clocks.py"), ""),
        (CLOCKS, "raise RuntimeError('changed')\n", CLOCKS),
        (CLOCKS, "raise KeyboardInterrupt\n", CLOCKS),
        (CLOCKS, "__import__('os')._exit(0)\n", CLOCKS),
    ],
)
def test_failing_test(test, source, failed):
    assert Change("hdl/target_clocks.py", source).failing_test(test, 100) == failed


def test_failed_test_comes_after_errors_in_a_log():
    log = "ERROR    Icarus:runner.py:674 ERROR: Failed 1 of 1 tests.\n"
    summary = "FAILED tests/hdl/test_gmii.py::test_user[1 2] - AssertionError\n"
    assert FAILED.search(log + summary)[1] == "tests/hdl/test_gmii.py::test_user[1 2]"


def test_program_that_compares_netlists_starts():
    """Otherwise, its error would count as a kill."""
    assert CHANGE.failing("proof: addition by digits", 100) == ""
    assert CHANGE.failing("proof: no proof has this name", 100).startswith("error: ")


def test_killer_that_is_gone():
    """Without an error, every mutant would count as killed."""
    with pytest.raises(ValueError, match=r"^killer: must be a test that exists, not"):
        CHANGE.failing_test(f"{CLOCKS}::test_none", 100)


@pytest.fixture
def outcomes(monkeypatch):
    """Replace the tests and the proofs; a table has the killers of the mutant."""
    killers = {}
    monkeypatch.setattr("mutation.campaign.nearest", lambda _: ["near", "far"])
    monkeypatch.setattr("mutation.campaign.distances", lambda _: {"near": 1, "far": 3})
    monkeypatch.setattr(Change, "failing_test", lambda self, name, limit: killers.get(name, ""))
    monkeypatch.setattr(Change, "failing_netlist", lambda self, limit: killers.get("proof", ""))
    return killers


@pytest.mark.parametrize(
    ("killers", "outcome", "by", "kind"),
    [
        ({}, "survived", "", ""),
        ({"likely": "a", "near": "b"}, "killed", "a", "test"),
        ({"near": "b", "proof": "p"}, "killed", "b", "test"),
        ({"proof": "p", "far": "c"}, "killed", "p", "proof"),
        ({"proof": "same", "far": "c"}, "equivalent", "same netlists", "netlist"),
        ({"far": "c"}, "killed", "c", "test"),
    ],
)
def test_verdicts(killers, outcome, by, kind, outcomes):
    mutant = next(m for m in mutants("hdl/queue.py", read("hdl/queue.py")) if makes_hardware(m))
    outcomes.update(killers)
    assert judge(mutant, ["likely"], 60) == {"outcome": outcome, "by": by, "kind": kind}
    assert judge(mutant, ["likely"], -1)["outcome"] == "open"


def test_netlists_show_functions_of_hardware_alone(outcomes):
    mutant = next(m for m in mutants("hdl/queue.py", read("hdl/queue.py")) if not makes_hardware(m))
    outcomes["proof"] = "same"
    assert judge(mutant, [], 60)["outcome"] == "survived"


def test_results_are_kept_until_the_source_changes(tmp_path):
    first, second, third, *_ = mutants("hdl/queue.py", read("hdl/queue.py"))
    results = Results(tmp_path / "results.jsonl")
    for mutant, test in [(first, "a"), (second, "b"), (third, "b")]:
        results.add(mutant, {"outcome": "killed", "by": test, "kind": "test"}, 1)
    kept = Results(tmp_path / "results.jsonl")
    assert kept.tried == results.tried
    assert kept.knows(first)
    assert not kept.knows(replace(first, true=b"changed"))
    assert kept.likely("hdl/queue.py") == ["b", "a"]
    assert kept.likely("hdl/queue") == []


def test_equivalent_mutants_exist():
    """Every reason has a mutant of today's source."""
    listed = equivalents()
    for path in {path for path, _, _ in listed}:
        there = {key(mutant): mutant for mutant in candidates(path, read(path))}
        assert all(there[row].compiles() for row in listed if row[0] == path)
    assert all(listed.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--module", "hdl/none.py"], "module: must be one of golden or hdl as hdl/queue.py"),
        (["hdl/queue.py:1:constant:0"], "mutant: must be one that --list names"),
        (["--defects", "none"], "defect: must be one of defects.toml, not 'none'"),
    ],
)
def test_arguments_wrong(arguments, message, tmp_path):
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--results", str(tmp_path / "none.jsonl")])
    assert str(caught.value).startswith(f"python tests/mutation: error: {message}")


# Defects

TABLE = [*table()]


def test_names_of_modules():
    names = ["hdl/queue.py", "sim/bench/unit.py", "lately/dedup/cli.py"]
    assert [*map(module_name, names)] == [
        "lately.hdl.queue", "lately.sim.bench.unit", "lately.dedup.cli",
    ]  # fmt: skip


def test_each_defect_can_be_made_and_has_killers_that_exist():
    """Also those whose killers do not run by day, which a change of the source would leave behind.

    At least 95 % have a killer.
    """
    proofs = {proof.name for proof in PROOFS}
    for defect in TABLE:
        assert defect.apply() != read(defect.path), defect.name
        compile(defect.apply(), defect.path, "exec")
        for killer in defect.killers:
            file, _, test = killer.partition("::")
            assert (
                killer.startswith(LIVES)
                or (killer.startswith(UNIT) and killer.split()[1] in UNITS)
                or killer.removeprefix(PROOF) in proofs
                or f"def {test.partition('[')[0]}(" in read(file)
            ), killer
    assert len({defect.name for defect in TABLE}) == len(TABLE)
    assert sum(row.killers[0].startswith(LIVES) for row in TABLE) <= 0.05 * len(TABLE)


@pytest.mark.rtl
@pytest.mark.parametrize("defect", [row for row in TABLE if row.daily], ids=lambda row: row.name)
def test_defect_is_killed(defect):
    assert defect.is_killed(defect.killers[0])


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize("path", sorted({defect.path for defect in TABLE}))
def test_all_defects_are_killed(path, capsys):
    """`python tests/mutation --defects` runs the same killers."""
    assert main(["--defects", path]) == 0, capsys.readouterr().out


TIMES = Defect(
    path="golden/times.py",
    kind="edges",
    name="a step back of one passes",
    old="np.flatnonzero(times < before)",
    new="np.flatnonzero(times < before - 1)",
    killers=["tests/golden/test_contract.py::test_timestamps_of_mixed_operations[TimeLimitedAPBF]"],
    daily=True,
)


def test_killer_decides():
    (killer,) = TIMES.killers
    assert TIMES.is_killed(killer)
    assert not replace(TIMES, new="np.flatnonzero(before > times)").is_killed(killer)


def test_defect_whose_text_is_gone():
    with pytest.raises(ValueError, match=r"^a step .*: golden/times.py must hold old once, not 0"):
        replace(TIMES, old="no such text").apply()
