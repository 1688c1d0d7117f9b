"""The mutation campaign: operators, the changed module in processes, verdicts, and the table."""

import random
from dataclasses import replace

import pytest
from mutation.__main__ import RESULTS, main
from mutation.campaign import Results, equivalents, judge, key, makes_hardware, modules, read
from mutation.killers import (
    FAILED,
    PROOF,
    ROOT,
    Change,
    EndlessRunError,
    distances,
    killed_by,
    nearest,
)
from mutation.operators import candidates, draw, mutants
from mutation.semantic import SemanticMutant, table, try_all

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
    found = mutants("hdl/counter.py", source)
    return {one.name.removeprefix("hdl/counter.py:"): (one.old, one.new) for one in found}


def test_changes_of_hardware():
    found = changes(HARDWARE)
    assert found["8:reset:0"] == ("7", "0")
    assert found["8:width:0"] == ("self._width", "(self._width) - 1")
    assert found["9:negation:0"] == ("self.step & ~self.stall", "(self.step & ~self.stall) == 0")
    assert found["9:operand:0"] == ("self.step & ~self.stall", "(self.step)")
    assert found["9:sign:0"] == ("~self.stall", "(self.stall)")
    assert found["10:domain:0"] == ("m.d.sync", "m.d.comb")
    assert found["10:exchange:1"][1] == "Mux(self.down, count + 1, count - 1)"
    assert found["10:calculation:0"] == ("count - 1", "(count + 1)")
    assert found["11:assignment:1"] == ("self.busy.eq(count != 0)", "*()")
    assert found["11:comparison:0"] == ("count == 0", "(count != 0)")
    assert found["2:constant:1"] == ("3", "2")
    # Where nothing works, a failure has no meaning.
    assert not [name for name in found if name.startswith(("3:statement", "4:statement"))]
    homes = {one.function for one in mutants("hdl/counter.py", HARDWARE)}
    assert homes == {"Counter.__init__", "Counter.elaborate"}


def test_each_change_has_a_name_and_can_be_compiled():
    for path in ("hdl/queue.py", "hdl/bus/axi4_lite.py", "golden/times.py"):
        found = mutants(path, read(path))
        assert len({one.name for one in found}) == len(found) > 20
        assert all(one.source != read(path) for one in found)


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
    found = mutants("hdl/queue.py", read("hdl/queue.py"))
    functions = {one.function for one in found}
    drawn = draw(found, seed=5, count=len(functions) + 2)
    assert {one.function for one in drawn} == functions
    assert len({(one.function, one.operator) for one in drawn}) == len(drawn)
    assert drawn == draw(found, seed=5, count=len(drawn)) != draw(found, seed=6, count=len(drawn))
    assert len(draw(found[:3], seed=5, count=100)) <= 3


def test_nearest_tests():
    assert {"golden/times.py", "hdl/queue.py", "hdl/frontend/gate.py"} <= {*modules()}
    assert distances("golden/ring/apbf.py")["tests/golden/test_filters.py"] == 2
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
    assert CHANGE.failing_proof("no proof has this name", 100) == ""


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


def test_results_are_kept_until_the_source_changes(tmp_path, monkeypatch):
    path = "hdl/queue.py"
    found = mutants(path, read(path))
    results = Results(tmp_path / "results.json")
    results.renew(path, len(found))
    test = "tests/test_mutation.py::test_nearest_tests"
    for mutant, name in zip(found, [test, "tests/gone.py::test_it", ""], strict=False):
        results.add(mutant, {"outcome": "killed", "by": name, "kind": "test"}, 1)
    kept = Results(tmp_path / "results.json")
    kept.renew(path, len(found))
    assert kept.tried(found[0])["by"] == test
    assert kept.tried(found[3]) == {}
    assert kept.likely(path) == [test]
    monkeypatch.setattr("mutation.campaign.read", lambda path: "changed")
    kept.renew(path, 1)
    assert kept.tried(found[0]) == {}


def test_equivalent_mutants_exist():
    """Every reason has a mutant of today's source."""
    listed = equivalents()
    for path in {path for path, _, _ in listed}:
        there = {key(one): one for one in candidates(path, read(path))}
        assert all(there[one].compiles() for one in listed if one[0] == path)
    assert all(listed.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--module", "hdl/none.py"], "module: must be one of golden or hdl as hdl/queue.py"),
        (["hdl/queue.py:1:constant:0"], "mutant: must be one that --list names"),
    ],
)
def test_arguments_wrong(arguments, message, tmp_path):
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--results", str(tmp_path / "none.json")])
    assert str(caught.value).startswith(f"python tests/mutation: error: {message}")


@pytest.mark.slow
def test_sample_of_the_record():
    """Tests that killed mutants of modules of today still kill them."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    results = Results(RESULTS)
    for path in [path for path in results.modules if path in modules()]:
        results.renew(path, 0)
    paths = [path for path in results.modules if results.likely(path)]
    for path in random.Random(seed).sample(paths, 8):
        known = [m for m in candidates(path, read(path)) if results.killer(m)]
        known = [mutant for mutant in known if key(mutant) not in equivalents()]
        mutant = random.Random(seed).choice(known)
        print(mutant.name)
        assert killed_by(path, mutant.source, results.killer(mutant), 600)


def test_record_names_modules_and_tests_that_exist():
    results = Results(RESULTS)
    assert [path for path in results.modules if not (ROOT / path).exists()] == []
    tried = [one for module in results.modules.values() for one in module["tried"].values()]
    killers = {one["by"].partition("[")[0] for one in tried if one["kind"] == "test"}
    texts = {path: read(path) for path in {name.partition("::")[0] for name in killers}}
    names = [name.partition("::") for name in killers]
    assert [name for name in names if f"def {name[2]}(" not in texts[name[0]] and name[2]] == []


# Semantic mutants


def test_semantic_mutants_are_many_and_of_many_kinds():
    mutants = table()
    assert len({one.name for one in mutants}) == len(mutants) >= 40
    assert len({one.kind for one in mutants}) >= 10
    assert len({one.path for one in mutants}) >= 20


@pytest.mark.parametrize("mutant", table(), ids=lambda one: one.name)
def test_semantic_mutant_can_be_applied(mutant):
    changed = mutant.apply()
    assert changed != (ROOT / mutant.path).read_text("utf-8")
    compile(changed, mutant.path, "exec")


@pytest.mark.parametrize("mutant", table(), ids=lambda one: one.name)
def test_semantic_mutant_has_a_killer_that_exists(mutant):
    assert bool(mutant.killer) != bool(mutant.reason)
    if mutant.killer.startswith(PROOF):
        assert mutant.killer.removeprefix(PROOF) in {proof.name for proof in PROOFS}
    elif mutant.killer:
        file, _, test = mutant.killer.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text("utf-8")


def test_semantic_mutants_are_killed():
    """At least 95 %; `python tests/mutation --semantic` runs the killers."""
    mutants = table()
    assert sum(bool(one.killer) for one in mutants) >= 0.95 * len(mutants)


TIMES = SemanticMutant(
    name="a step back of one passes",
    kind="edges",
    path="golden/times.py",
    old="np.flatnonzero(times < before)",
    new="np.flatnonzero(times < before - 1)",
    killer="tests/golden/test_contract.py::test_timestamps_of_mixed_operations[TimeLimitedAPBF]",
)


def test_killer_decides():
    assert TIMES.is_killed()
    assert not replace(TIMES, new="np.flatnonzero(before > times)").is_killed()


def test_semantic_mutant_whose_text_is_gone():
    with pytest.raises(ValueError, match=r"^gone: golden/times.py must hold old once, not 0 times"):
        SemanticMutant("gone", "edges", "golden/times.py", "no such text", "").apply()


def test_unknown_semantic_mutant():
    with pytest.raises(ValueError, match=r"must be a name of semantic.toml, not 'no such name'"):
        try_all(["no such name"])


@pytest.mark.slow
def test_sample_of_semantic_mutants(capsys):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    names = random.Random(seed).sample([one.name for one in table() if one.killer], 8)
    assert try_all(names) == 0, capsys.readouterr().out
