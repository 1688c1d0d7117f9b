"""Campaigns of upsets: what is promised, how a run is judged, and that a campaign can go on."""

import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from campaigns import upset_campaign
from campaigns.__main__ import main
from campaigns.commands import upset_commands
from campaigns.run_record import UPSETS, RunRecord, RunRecordError
from campaigns.upset_campaign import Campaign
from campaigns.upset_course import promised
from campaigns.upset_outcomes import END, OUTCOMES, judge
from lately.golden import Operation, SpecificationError, any_preset, preset
from lately.golden.spec.timestamp import TimedTimingSpec
from lately.hdl.latencies import PROTECTIONS
from lately.sim import CompiledUnit, compiled_unit
from lately.sim.replay.upset_elements import KINDS, Element
from lately.sim.replay.upset_runs import Beheld, Outcome, Sent

CHECK = Operation.CHECK_AND_INSERT
BEATS = 20


def sent(*operations, numbers=0):
    """A sequence of operations on keys, as the driver takes it."""
    codes, keys = zip(*operations, strict=True)
    count = len(codes)
    return Sent(
        np.zeros(count, np.uint8),
        np.array(codes, np.uint8) | np.uint8(0x80),
        np.array(keys, np.uint64)[:, None],
        np.broadcast_to(numbers, count).astype(np.uint64),
    )


def reported(count):
    """Answers that report every key."""
    return Beheld.nothing(count)._replace(seen=np.full(count, 2, np.uint8))


def promises(spec, sequence, beheld=None):
    beheld = reported(len(sequence.codes)) if beheld is None else beheld
    return np.flatnonzero(promised(spec, sequence, beheld)).tolist()


def test_promised_by_insertions():
    spec = preset("tiny")
    others = [(Operation.INSERT, key) for key in range(2, 10)]
    window = spec.guaranteed_window
    assert len(others) == window
    # The query comes as late as it may, and one insertion later.
    first, query = (Operation.INSERT, 1), (Operation.QUERY, 1)
    assert promises(spec, sent(first, *others[:-1], query)) == [window]
    assert promises(spec, sent(first, *others, query)) == []


def test_promised_after_other_operations():
    spec = preset("tiny")
    first, query = (Operation.INSERT, 1), (Operation.QUERY, 1)
    assert promises(spec, sent(first, (Operation.NONE, 1), (Operation.QUERY, 2), query)) == [3]
    assert promises(spec, sent(first, (Operation.CLEAR, 1), query)) == []
    assert promises(spec, sent(query, (CHECK, 1), (CHECK, 1))) == [2]
    # What is not reported was not promised: a SHIFT came.
    unseen = Beheld.nothing(2)._replace(seen=np.ones(2, np.uint8))
    assert promises(spec, sent(first, query), unseen) == []
    removal = sent(first, (Operation.REMOVE, 1), query, numbers=40)
    assert promises(any_preset("dictionary-tiny"), removal) == []


@pytest.mark.parametrize(("asked", "found"), [(2, [2, 4]), (1, [2]), (0, [])])
def test_promised_by_a_window_that_is_asked_for(asked, found):
    query = (Operation.QUERY, 1)
    operations = [(Operation.INSERT, 1), (Operation.NONE, 0), query, (Operation.INSERT, 2), query]
    sequence = sent(*operations, numbers=asked)
    assert promises(any_preset("dictionary-tiny"), sequence) == found
    assert promises(any_preset("timing-counted-tiny"), sequence) == found


def test_promised_by_ticks():
    spec = any_preset("timing-tiny")
    assert isinstance(spec, TimedTimingSpec)
    sequence = sent((Operation.INSERT, 1), (Operation.QUERY, 1), (Operation.QUERY, 1), numbers=7)
    beheld = reported(3)._replace(time=np.array([5, 12, 13], np.uint32))
    assert promises(spec, sequence, beheld) == [1]
    ring = any_preset("timed-tiny")
    numbers = [5, 5 + ring.span, 6 + ring.span]
    assert promises(ring, sent(*[(Operation.INSERT, 1), *[(Operation.QUERY, 1)] * 2],
                               numbers=numbers)) == [1]  # fmt: skip


def judged(promise=(), told=False, healed=True, beats=BEATS, operation=CHECK, **changes):
    """Judge one run in which some answers changed, of a sequence in which every second is seen."""
    sequence = sent(*[(operation, 0)] * 40)
    seen = np.tile(np.array([1, 2], np.uint8), 20)
    reference = Beheld.nothing(40)._replace(seen=seen, tag=np.arange(40, dtype=np.uint8))
    found = Beheld(*(array[None, 10 : 10 + BEATS].copy() for array in reference))
    for name, (at, value) in changes.items():
        getattr(found, name)[0, at] = value
    outcome = Outcome(
        np.array([10]), np.array([beats]), np.array([told]), np.array([healed]), found
    )
    due = np.zeros(40, np.bool_)
    due[list(promise)] = True
    ranks, tells = judge(sequence, reference, due, outcome, BEATS)
    return list(OUTCOMES)[ranks[0]], bool(tells[0])


def test_outcomes():
    assert judged() == ("masked", False)
    assert judged(told=True) == ("masked", True)
    assert judged(healed=False) == ("latent", False)
    assert judged(seen=(4, 2)) == ("false positive", False)
    assert judged(seen=(5, 1)) == ("other", False)
    assert judged(seen=(5, 1), promise=[15]) == ("false negative", False)
    assert judged(seen=(5, 1), promise=[13, 17]) == ("other", False)
    assert judged(seen=(5, 1), promise=[15], told=True) == ("false negative", True)
    assert judged(seen=(4, 2), healed=False) == ("false positive", False)


def test_ages_of_outcomes():
    assert judged(age=(5, 3)) == ("other", False)
    # A key that is not reported has no age, and one that is reported by mistake a wrong one.
    assert judged(age=(4, 3)) == ("masked", False)
    assert judged(seen=(4, 2), age=(4, 3)) == ("false positive", False)
    for name in ("status", "time", "tag"):
        assert judged(**{name: (4, 99)}) == ("other", False)
    assert judged(seen=(4, 2), status=(4, 1)) == ("other", False)
    assert judged(operation=Operation.INSERT, seen=(4, 2)) == ("other", False)


def test_a_status_excuses_the_answer_it_comes_with():
    assert judged(seen=(5, 1), status=(5, 1), promise=[15]) == ("false negative", True)
    assert judged(seen=(5, 1), status=(4, 1), promise=[15]) == ("false negative", False)


def test_results_that_are_lost():
    assert judged(beats=BEATS - 1) == ("lost result", False)
    every = slice(BEATS - END, BEATS)
    half = slice(BEATS - END // 2, BEATS)
    assert judged(tag=(every, 99)) == ("lost result", False)
    assert judged(tag=(half, 99)) == ("other", False)
    assert judged(tag=(slice(BEATS - END // 2 - 1, BEATS), 99)) == ("lost result", False)
    assert judged(seen=(every, 0), promise=[29]) == ("lost result", False)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(upset_campaign, "BATCH", 40)
    monkeypatch.setattr(upset_campaign, "LOAD", 200)
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=1))


def campaign(upsets, kinds=KINDS, seed=1):
    return Campaign(spec=preset("tiny"), upsets=upsets, seed=seed, kinds=kinds)


def without_time(figures):
    return {name: figures[name] for name in figures.keys() - {"seconds", "interrupted"}}


@pytest.mark.rtl
@pytest.mark.usefixtures("quick")
def test_campaign():
    done, kept = [], []
    whole = upset_campaign.run(campaign(100), progress=done.append, keep=kept.append)
    assert (done, len(kept)) == ([0, 40, 40, 20], 3)
    assert (whole["done"], whole["mismatches"], whole["interrupted"]) == (100, 0, False)
    assert sum(row["silent"] + row["told"] for row in whole["found"]) == 100
    assert sum(bits for _, bits, *_ in whole["elements"].values()) > 1000
    resumed = upset_campaign.run(campaign(100), json.loads(json.dumps(kept[0])))
    assert without_time(resumed) == without_time(whole)
    assert without_time(upset_campaign.run(campaign(40), whole)) == without_time(kept[0])
    others = upset_campaign.run(campaign(40, seed=2), whole)
    assert others["elements"] != kept[0]["elements"]


@pytest.mark.parametrize("kinds", [["memory"], ["register", "memory"]])
def test_a_kind_without_a_bit_is_refused(kinds, monkeypatch):
    """Of each kind that is asked for there is a bit, or a campaign would pass without it."""
    upsets = SimpleNamespace(elements=[Element(("top", "accepted"), 1, 1, False)], digest="")
    unit = SimpleNamespace(upsets=upsets)
    monkeypatch.setattr("lately.sim.compiled_unit", lambda *_, **__: nullcontext(unit))
    message = "^kind: must be one the unit has, register, not 'memory'$"
    with pytest.raises(SpecificationError, match=message):
        upset_campaign.run(campaign(40, kinds))


@pytest.mark.rtl
@pytest.mark.usefixtures("quick")
def test_campaign_interrupted():
    def stop(figures):
        if figures["done"] == 80:
            raise KeyboardInterrupt

    figures = upset_campaign.run(campaign(1000, ["memory"]), keep=stop)
    assert (figures["done"], figures["interrupted"]) == (80, True)
    assert {kind for kind, *_ in figures["elements"].values()} == {"memory"}
    assert {row["kind"] for row in figures["found"]} == {"memory"}


@pytest.mark.rtl
@pytest.mark.usefixtures("quick")
def test_command(monkeypatch, tmp_path):
    path = tmp_path / "record.json"
    arguments = ["upsets", "--preset", "tiny", "--upsets", "40", "--record", str(path)]
    result = CliRunner().invoke(main, [*arguments, "--kind", "register"])
    assert result.exit_code == 0, result.output
    assert "false negative" in result.stdout
    kept = json.loads(path.read_text())
    assert list(kept) == ["tiny register"]
    again = CliRunner().invoke(main, [*arguments, "--kind", "register", "--json"])
    assert without_time(json.loads(again.stdout)) == without_time(kept["tiny register"])

    class Faulty(CompiledUnit):
        def apply(self, operations, keys):
            verdicts = super().apply(operations, keys)
            verdicts.seen[100:101] ^= True
            return verdicts

    monkeypatch.setattr("lately.sim.compiled_unit", partial(Faulty, optimisation=1))
    result = CliRunner().invoke(main, [*arguments, "--kind", "memory"])
    assert result.exit_code == 1
    assert "mismatches: must be 0, not 1" in result.stderr


def test_campaigns_that_differ_are_kept_apart(monkeypatch, tmp_path):
    """Of the same unit: in protection, in what is struck, in the seed, and in what a file holds."""
    figures = {"done": 40, "mismatches": 0, "seconds": 1.0, "found": [], "elements": {},
               "kinds": list(KINDS)}  # fmt: skip

    def run(campaign, known, *, keep, **_):
        keep(figures | {"asked": campaign.seed, "options": campaign.options})
        return figures | {"interrupted": True}

    monkeypatch.setattr(upset_campaign, "run", run)
    path = tmp_path / "record.json"
    for folder, window in (("a", 24), ("b", 25)):
        (tmp_path / folder).mkdir()
        spec = replace(any_preset("timing-counted-tiny"), window=window, stamp_bits=8)
        spec.to_toml(tmp_path / folder / "unit.toml")
    campaigns = [
        ["--preset", "tiny"],
        ["--preset", "tiny", "--protect", "parity"],
        ["--preset", "tiny", "--protect", "ecc"],
        ["--preset", "tiny", "--check"],
        ["--preset", "tiny", "--kind", "memory"],
        ["--preset", "tiny", "--seed", "2"],
        ["--spec", str(tmp_path / "a" / "unit.toml")],
        ["--spec", str(tmp_path / "b" / "unit.toml")],
    ]
    arguments = ["upsets", "--upsets", "40", "--record", str(path)]
    for options in campaigns:
        CliRunner().invoke(main, [*arguments, *options])
    kept = json.loads(path.read_text())
    assert len(kept) == len(campaigns)
    named = {"tiny", "tiny ecc", "tiny check", "tiny memory", "tiny seed 2"}
    assert named < kept.keys()
    assert kept["tiny ecc"]["options"] == {"protect": "ecc"}
    # All kinds are those that are struck by default.
    every = [option for kind in KINDS for option in ("--kind", kind)]
    CliRunner().invoke(main, [*arguments, "--preset", "tiny", *every])
    assert json.loads(path.read_text()) == kept
    # A shorter campaign does not take the place of a longer one.
    fewer = ["upsets", "--upsets", "39", "--record", str(path), "--preset", "tiny"]
    result = CliRunner().invoke(main, fewer)
    assert result.exit_code == 2
    assert f"--upsets: must be at least 40, which {path} has of tiny, not 39" in result.stderr
    assert json.loads(path.read_text()) == kept


def test_kinds_of_the_command():
    assert upset_commands.KINDS == KINDS
    (offered,) = (one for one in upset_commands.bench_upsets.params if one.name == "protect")
    assert list(offered.type.choices) == list(PROTECTIONS)


def test_tables_wrong(tmp_path):
    path = tmp_path / "tables.toml"
    replace(any_preset("timing-tiny"), classes=3).to_toml(str(path))
    result = CliRunner().invoke(main, ["upsets", "--spec", str(path)])
    assert result.exit_code == 1
    assert "classes: must not be given for upsets, not 3" in result.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [("[]", "it must be an object"), ("{", "Expecting property name"),
     ('{"tiny": 3}', "tiny must be an object"),
     ('{"tiny": {"done": 1}}', "tiny must have mismatches of type int")],
)  # fmt: skip
def test_record_wrong(text, reason, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(RunRecordError, match=f"must hold figures of upsets.*{reason}"):
        RunRecord(path, UPSETS)
    assert path.read_text() == text


def test_records_of_one_file_keep_what_the_other_has(tmp_path):
    figures = {"done": 1, "mismatches": 0, "seconds": 0.5, "found": [], "elements": {}}
    one, other = (RunRecord(tmp_path / "record.json", UPSETS) for _ in range(2))
    one.keep("a", figures)
    other.keep("b", figures)
    one.keep("c", figures)
    assert list(json.loads((tmp_path / "record.json").read_text())) == ["a", "b", "c"]


def test_record_without_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        RunRecord(Path(tmp_path) / "none" / "record.json", UPSETS)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["apbf-tiny", "gebf-tiny", "timed-tiny", "timing-tiny", "timing-counted-tiny",
     "dictionary-tiny", "dictionary-ring-tiny", "two-lanes-tiny", "siphash-tiny"],
)  # fmt: skip
def test_campaigns_of_all_units(name, monkeypatch):
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=1))
    figures = upset_campaign.run(Campaign(spec=any_preset(name), upsets=1000, seed=3, kinds=KINDS))
    assert figures["mismatches"] == 0
    found = {(row["kind"], row["outcome"]): row["silent"] for row in figures["found"]}
    assert found["register", "masked"] > 100
    assert found["register", "false negative"] > 10
    assert found["buffer", "other"] > 0


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["tiny", "timed-tiny", "timing-tiny", "dictionary-tiny", "two-lanes-tiny"]
)
def test_campaigns_of_protected_units(name, monkeypatch):
    """No upset of a memory bit loses a key or a result, the small memories' neither."""
    monkeypatch.setattr("lately.sim.compiled_unit", partial(compiled_unit, optimisation=1))
    kinds = ("memory", "buffer")
    figures = upset_campaign.run(
        Campaign(
            spec=any_preset(name), upsets=1000, seed=4, kinds=kinds, options={"protect": "parity"}
        )
    )
    assert figures["mismatches"] == 0
    found = {(row["kind"], row["outcome"]): row["silent"] + row["told"] for row in figures["found"]}
    assert found["memory", "masked"] > 0
    for kind in kinds:
        assert found.get((kind, "false negative"), 0) == found.get((kind, "lost result"), 0) == 0
