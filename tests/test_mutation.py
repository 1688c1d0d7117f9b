"""The mutation campaign: what it changes, that processes import it, and how it tells verdicts."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest
from mutation.__main__ import RESULTS, main, shares
from mutation.campaign import (
    Judge,
    Results,
    Verdict,
    equivalents,
    key,
    makes_hardware,
    modules,
    read,
)
from mutation.operators import Source, draw
from mutation.processes import ROOT, EndlessRunError, Run, run_tests, start
from mutation.semantic import PROOF, SemanticMutant, table, try_all
from mutation.tracks import digest_of, distances, reaching

from lately.sim.proofs.catalogue import PROOFS

HARDWARE = b"""\
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
    """Return how each change of a source is named, and what it makes of it."""
    mutants = Source("hdl/counter.py", source).mutants()
    return {mutant.name.removeprefix("hdl/counter.py:"): mutant for mutant in mutants}


def test_changes_of_hardware():
    found = changes(HARDWARE)
    told = {name: (mutant.old, mutant.new) for name, mutant in found.items()}
    assert told["8:reset:0"] == ("7", "0")
    assert told["8:width:0"] == ("self._width", "(self._width) - 1")
    assert told["9:negation:0"] == ("self.step & ~self.stall", "(self.step & ~self.stall) == 0")
    assert told["9:operand:0"] == ("self.step & ~self.stall", "(self.step)")
    assert told["9:sign:0"] == ("~self.stall", "(self.stall)")
    assert told["10:domain:0"] == ("sync", "comb")
    assert told["10:exchange:1"] == ("count - 1, count + 1", "count + 1, count - 1")
    assert told["10:calculation:0"] == ("-", "+")
    assert told["11:assignment:1"] == ("self.busy.eq(count != 0)", "*()")
    assert told["11:comparison:0"] == ("==", "!=")
    assert told["2:constant:1"] == ("3", "2")
    assert {mutant.function for mutant in found.values()} == {
        "Counter.__init__", "Counter.elaborate",
    }  # fmt: skip
    # What nothing works without says nothing of the tests.
    assert not [name for name in told if name.startswith(("3:statement", "4:statement"))]


def test_each_change_is_one_and_can_be_compiled():
    for path in ("hdl/queue.py", "hdl/bus/axi4_lite.py", "golden/times.py"):
        source = read(path)
        names = Counter(mutant.name for mutant in source.mutants())
        assert set(names.values()) == {1}
        for mutant in source.mutants():
            changed = mutant.apply(source.source)
            assert changed != source.source
            compile(changed, path, "exec")


def test_texts_and_types_are_left_alone():
    found = changes(
        b'def f(x: Literal[1]) -> Literal[2]:\n    """Return 3."""\n'
        b'    if TYPE_CHECKING:\n        import a\n    raise ValueError(f"{x + 4}, not 5")\n'
    )
    assert found == {}


def test_a_reset_that_is_lost_is_a_change_and_one_too_many_is_not():
    found = changes(b"m.d.sync += a.eq(registered(m, b, reset_less=True))\nf(reset_less=False)\n")
    assert "1:boolean:0" not in found
    assert found["2:boolean:0"].new == "True"


def test_draw_depends_on_the_function_alone():
    source = read("hdl/queue.py")
    whole = list(source.mutants())
    some = [mutant for mutant in whole if mutant.function == "ResultQueue.elaborate"]
    drawn = draw(whole, seed=5, each=3)
    assert {m.name for m in draw(some, seed=5, each=3)} < {m.name for m in drawn}
    assert max(Counter(mutant.function for mutant in drawn).values()) == 3
    # Each of another kind.
    assert set(Counter((m.function, m.operator) for m in drawn).values()) == {1}
    assert drawn != draw(whole, seed=6, each=3)


@pytest.mark.slow
def test_all_modules_have_mutants_that_can_be_found():
    paths = modules()
    assert {"golden/times.py", "hdl/queue.py", "hdl/frontend/gate.py"} <= set(paths)
    assert distances("lately.golden.ring.apbf")["tests/golden/test_filters.py"] == 2
    assert distances("lately.hdl.queue")["tests/hdl/test_hdl.py"] == 1
    assert "tests/golden/test_spec.py" not in distances("lately.hdl.queue")


def test_changed_module_is_imported_in_processes(tmp_path):
    """Also in what they start; its file stays the original's."""
    changed = tmp_path / "changed.py"
    changed.write_text("VALUE = 5\n")
    script = "import inspect, lately.golden.times as m; print(m.VALUE, inspect.getsource(m)[:3])"
    again = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"
    run = Run(tmp_path, "lately.golden.times", changed)
    for code in (script, again):
        assert start(["-c", code], run.environment(str(tmp_path)), 60) == '5 """\n'


def test_module_that_cannot_be_imported_fails_the_tests(tmp_path):
    changed = tmp_path / "changed.py"
    changed.write_text("raise RuntimeError('changed')\n")
    run = Run(tmp_path, "lately.hdl.target_clocks", changed)
    told = run_tests(run, ["tests/hdl/test_target_clocks.py"])
    assert told == {
        "failed": "tests/hdl/test_target_clocks.py",
        "error": "RuntimeError",
        "tests": {},
    }


@pytest.mark.parametrize(("output", "failed"), [("Killed", True), ("1 failed, 6 passed", False)])
def test_a_run_that_tells_nothing_kills_only_if_no_test_ended(
    output, failed, tmp_path, monkeypatch
):
    """A process that dies is a kill; tests that end without being told of are none."""
    monkeypatch.setattr("mutation.processes.start", lambda *_: f"...\n{output}\n")
    run, files = Run(tmp_path), ["tests/hdl/test_target_clocks.py"]
    if failed:
        assert run_tests(run, files) == {"failed": files[0], "error": output, "tests": {}}
    else:
        with pytest.raises(RuntimeError, match=f"^The plugin of pytest must tell .* {output}$"):
            run_tests(run, files)


def test_endless_process_is_stopped(tmp_path):
    with pytest.raises(EndlessRunError):
        start(["-c", "while True: pass"], dict(os.environ), 0.5)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    return run_tests(Run(tmp_path_factory.mktemp("watched")), ["tests/hdl/test_target_clocks.py"])


def test_test_that_breaks_the_run_is_named(tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text("def test_a(): pass\ndef test_b(): raise KeyboardInterrupt\n")
    told = run_tests(Run(tmp_path), [str(file)])
    assert told["failed"].endswith("test_it.py::test_b")


def test_calls_of_tests_are_recorded(watched):
    assert watched["failed"] is None
    tests = watched["tests"]
    assert tests
    assert all(test["seconds"] > 0 for test in tests.values())
    assert reaching(tests, "hdl/target_clocks.py", "")
    assert not reaching(tests, "hdl/queue.py", "ResultQueue.elaborate")


def test_calls_of_functions_whose_values_are_kept_are_not_recorded(tmp_path):
    """Of the tests that need a value, the first alone would be known to see a mutant."""
    code = (
        "import sitecustomize, lately.golden.hash.functions as tried; "
        "tried.KeyHash(key_bits=8, sizes=(2,), functions=1, seed=0); "
        "kinds = 'fold_columns', 'KeyHash.__init__'; "
        "print([name for name in sitecustomize.CALLED if name.endswith(kinds)])"
    )
    environment = Run(tmp_path).environment(str(tmp_path)) | {"LATELY_CALLS": "1"}
    told = start(["-c", code], environment, 60)
    assert told == "['golden/hash/functions.py:KeyHash.__init__']\n"


def test_modules_that_are_imported_late_are_those_of_all_tests_that_follow(tmp_path):
    """A compiled function does not tell that it is called: its module stands for it."""
    file = tmp_path / "test_later.py"
    use = "import lately.golden.ring.compiled_turns"
    file.write_text(f"def test_before(): pass\ndef test_first(): {use}\ndef test_second(): {use}\n")
    tests = run_tests(Run(tmp_path), [str(file)])["tests"]
    found = reaching(tests, "golden/ring/compiled_turns.py", "")
    assert [name.partition("::")[2] for name in found] == ["test_first", "test_second"]


def test_verdicts(tmp_path, watched, monkeypatch):
    source = read("hdl/target_clocks.py")
    mutants = list(source.mutants())
    told = iter([{"failed": None}, {"failed": "a test", "error": "AssertionError"}])
    monkeypatch.setattr("mutation.campaign.run_tests", lambda *_: next(told))
    monkeypatch.setattr("mutation.campaign.distances", lambda _: {"tests/a.py": 1, "tests/b.py": 2})
    judge = Judge(tmp_path)
    judge.records.tests = lambda file: watched["tests"] if file == "tests/a.py" else {}
    judge.records.hardware = lambda kind: {}
    judge.records.cost = lambda *_: (0,)
    reached = [m for m in mutants if reaching(watched["tests"], m.path, m.function)]
    assert judge(source, reached[0]).outcome == "survived"
    killed = replace(judge(source, reached[0]), seconds=0)
    assert killed == Verdict("killed", "a test", "test", "AssertionError")
    judge.reasons = {key(source, reached[0]): "for a reason"}
    assert judge(source, reached[0]) == Verdict("equivalent", "for a reason", "reason")
    # No time is left for the second file.
    judge.reasons, judge.limit = {}, -1
    assert judge(source, reached[0]).outcome == "open"


def test_results_are_kept_until_the_source_changes(tmp_path):
    source = read("hdl/queue.py")
    mutants = list(source.mutants())
    results = Results(tmp_path / "results.json")
    results.renew(source, mutants)
    results.add(mutants[0], Verdict("killed", "a test", "test"))
    kept = Results(tmp_path / "results.json")
    kept.renew(source, mutants)
    assert (kept.outcome(mutants[0]), kept.killer(mutants[0])) == ("killed", "a test")
    assert (kept.outcome(mutants[1]), kept.killer(mutants[1])) == ("", "")
    kept.renew(Source(source.path, source.source + b"\n"), mutants)
    assert kept.outcome(mutants[0]) == ""


def test_what_killed_others_runs_first(tmp_path):
    source = read("hdl/target_clocks.py")
    mutants = list(source.mutants())
    results = Results(tmp_path / "results.json")
    results.renew(source, mutants)
    for mutant, name in zip(mutants, ["one", "two", "two"], strict=False):
        results.add(mutant, Verdict("killed", f"tests/a.py::{name}", "test"))
    results.add(mutants[3], Verdict("killed", "a proof", "proof"))
    assert results.killers(mutants[0]) == ["tests/a.py::one"]
    assert results.killers(mutants[4]) == ["tests/a.py::two", "tests/a.py::one"]
    # A test of which it is on record that it calls other functions cannot see the mutant.
    judge = Judge(tmp_path)
    file, other = "tests/hdl/test_hdl.py", "tests/hdl/test_front.py"
    calls = {"two": ["hdl/a.py:f"], "one": ["hdl/b.py:f"]}
    tests = {f"{file}::{n}": {"calls": called, "seconds": 1} for n, called in calls.items()}
    judge.records._kept = {file: {"digest": digest_of(file), "tests": tests}}
    # Nor can one that is gone; a process that finds no file fails with any source.
    names = [f"{file}::one", "tests/hdl/test_gone.py::one", f"{file}::two", f"{other}::one"]
    assert [*judge.records.those(names, "hdl/a.py", "f")] == names[2:]


def test_quick_tests_of_all_files_run_first(tmp_path):
    seconds = {"tests/a.py": [30, 1, 0.5], "tests/b.py": [3, 3, 3], "tests/c.py": [0.1]}
    judge = Judge(tmp_path)
    judge.records.tests = lambda file: {
        f"{file}::{number}": {"calls": ["hdl/x.py:f"], "seconds": one}
        for number, one in enumerate(seconds[file])
    }
    judge.records.cost = lambda file, *_: (sum(seconds[file]),)
    told = [(file[6], [*tests]) for file, tests in judge._chosen(seconds, "hdl/x.py", "f")]
    assert [(file, [int(name[-1]) for name in names]) for file, names in told] == [
        ("c", [0]), ("b", [0]), ("a", [2, 1]), ("b", [1, 2]), ("a", [0]),
    ]  # fmt: skip


def test_files_named_like_the_module_run_first(tmp_path):
    judge = Judge(tmp_path)
    called = {"calls": ["hdl/timing/core.py:f"], "seconds": 1}
    judge.records.tests = lambda file: {f"{file}::f": called}
    judge.records.cost = lambda *_: (0,)
    files = [
        "tests/golden/test_timing.py",
        "tests/hdl/test_hdl.py",
        "tests/hdl/test_timing_core.py",
    ]
    told = [file for file, _ in judge._chosen(files, "hdl/timing/core.py", "f")]
    assert told == [files[2], files[0], files[1]]


def test_shares_of_modules(tmp_path):
    sources = [read("hdl/target_clocks.py"), read("hdl/queue.py")]
    every = [list(source.mutants()) for source in sources]
    results = Results(tmp_path / "results.json")
    for source, mutants in zip(sources, every, strict=True):
        results.renew(source, mutants)
    results.add(every[0][0], Verdict("killed"))
    kept = shares([*every[0][1:], *every[1]], results, 3)
    assert kept == [*every[0][1:3], *every[1][:3]]
    assert shares(every[1], results, None) == every[1]


def test_only_tests_on_record(tmp_path, monkeypatch):
    monkeypatch.setattr("mutation.tracks.run_tests", lambda *_: pytest.fail("recorded"))
    source = read("hdl/target_clocks.py")
    judge = Judge(tmp_path, recorded=True)
    judge.records.hardware = lambda kind: {}
    assert judge(source, next(source.mutants())).outcome == "open"


def test_equivalent_mutants_exist():
    """What is listed for a source that has changed since is listed in vain."""
    listed = equivalents()
    for path in {path for path, _, _ in listed}:
        source = read(path)
        there = {key(source, mutant): mutant for mutant in source.candidates()}
        for one in (one for one in listed if one[0] == path):
            assert one in there
            assert source.compiles(there[one])
    assert all(listed.values())


def test_what_makes_hardware():
    source = read("hdl/queue.py")
    assert makes_hardware(source, "ResultQueue.elaborate")
    assert not makes_hardware(source, "ResultQueue.__init__")
    assert not makes_hardware(source, "")


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
def test_sample_of_the_campaign(tmp_path):
    """What tests noticed they still notice: as many mutants on record as ten minutes allow."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    out = shutil.copy(RESULTS, tmp_path)
    command = [sys.executable, "tests/mutation", "--again", "--seed", str(seed), "--minutes", "10"]
    command += ["--results", out, "--folder", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(ended.stdout)
    assert ended.stderr == ""
    assert re.fullmatch(r"killed: \d+", ended.stdout.splitlines()[-1])


def test_record_is_of_mutants_that_were_tried():
    kept = json.loads(RESULTS.read_text("utf-8"))["modules"]
    outcomes = {one["outcome"] for module in kept.values() for one in module["tried"].values()}
    assert outcomes <= {"killed", "survived", "equivalent", "open"}
    assert all(len(module["tried"]) <= module["mutants"] for module in kept.values())


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
