# amaranth: UnusedElaboratable=no
"""Command lines that are refused: one line that says why, status 2, and nothing is written."""

import os
import shlex
import shutil
from dataclasses import replace

import pytest
from capture_files import MADE, pcap
from click.testing import CliRunner
from command_runs import write_files

from lately.cli.app import main
from lately.golden import PartitionedTimingSpec
from lately.golden.spec import GEBFSpec

APBF = 'family = "apbf"\nk = 3\nl = 2\n'
FILES = {
    "keys": "".join(f"{number % 700}\n" for number in range(2000)),
    "k.csv": "when,who\n1,2\n",
    "times.csv": "time,key\n1,a\n2,b\n",
    "secret": f"{1:032x}\n",
    "word": "no secret",
    "no.toml": "family = apbf",
    "wide.toml": f"{APBF}slice_bits = 1024\nkey_bits = 5000\n",
    "odd.toml": f"{APBF}slice_bits = 1000\n",
    "span.toml": f"{APBF}slice_bits = 1024\nspan = 200\n",
    "one.pcap": pcap([(0, bytes(60))]),
    "in.snoop": b"snoop\0\0\0\0\0\0\2\0\0\0\4",
    "in.erf": bytes.fromhex("12345678 00000065 02 04 0052 0000 0040") + bytes(66),
    "bad.gz": b"\x1f\x8b\x08" + bytes(9),
}
FRAMES = GEBFSpec(window=72, epochs=3, hashes=3, bits=6144, key_bits=64, span=20)
CLASSES = replace(PartitionedTimingSpec(window=40, hashes=3, cells=512), classes=2)

FIELDS = "fields: must be none or any of tos, ttl, vlan, layer2, frame, no-ch"
TUNNEL = "tunnel: must be udp:PORT:SKIP:ethernet or udp:PORT:SKIP:ip, such as"
NUMBER = "must be a number above 0 and a unit (ns, us, ms, s, min"
EDITCAP = "convert it with editcap -F pcap IN OUT"

MESSAGES = {
    "": {
        "fly": "No such command 'fly'. (see 'lately --help')",
        "list filters": "...'filters' is not one of ",
        "show --preset two-lanes --device ecp5-85k-8": "--device needs a filter with one ",
        "show --preset tiny --spec a.toml": "--spec cannot be combined with --preset",
        "tap one.pcap out --encapsulate gre --vlan 7":
        "--vlan cannot be combined with --encapsulate",
    },
    "run": {
        "": "Missing argument 'TRACE'. (see 'lately run --help')",
        "x --window 5": "--window needs --fpr (see 'lately run --help')",
        "x --fpr 0.1": "--fpr needs --window or --rate (see 'lately run --help')",
        "x --limit 0": "Invalid value for '--limit': 0 is not in the range x>=1.",
        "x --engine fpga": "Invalid value for '--engine': 'fpga' is not one of",
        "none": "none: No such file or directory",
        ".": ".: Is a directory",
        "k.csv --key whom": "key: must be a column of k.csv ('when, who'), not 'whom'",
        "keys --spec none.toml": "none.toml: No such file or directory",
        "keys --spec no.toml": "no.toml: must be a TOML file: ",
        "keys --spec wide.toml": "wide.toml: key_bits: must be at most 4096, not 5000",
        "keys --spec odd.toml": "apbf: block and part sizes must be powers of two in hardware",
        "keys --preset huge": "preset: unknown 'huge'; ",
        "keys --window 9 --fpr 3": "Invalid value for '--fpr': 3.0 is not in the range 0<x<1.",
        "keys --engine golden --out-dir keys": "out-dir: must be a directory, not the file keys",
        "keys --engine golden --watch": "--watch needs a terminal on standard error",
        "keys --engine golden --secret-file secret --preset tiny":
        "secret: the filter uses no secret; its hash is not siphash",
        "keys --engine golden --secret-file word --preset siphash-tiny":
        "word: must contain 32 hexadecimal digits",
        "keys --span 50": f"span: {NUMBER}",
        "keys --span 1s --tick x": f"tick: {NUMBER}",
        "keys --span 0.5ns": "span: must be a whole number of nanoseconds, not '0.5 ns'",
        "keys --tick 1ms": "--tick needs --span",
        "keys --when-full shorten": "when_full: the filter has no span; give --span",
        "keys --rate 5": "--rate needs --span (see 'lately run --help')",
        "keys --span 1s --rate 5": "--rate needs --fpr (see 'lately run --help')",
        "keys --span 1s --when-full x": "Invalid value for '--when-full': 'x' is not one",
        "keys --engine golden --span 1s": "span: ",
        "times.csv --engine golden --spec span.toml":
        "a filter with a span of 200 ticks needs --span or --tick",
        "keys --engine golden --preset timing-counted-tiny --query-window 21":
        "query_window: must be between 1 and 20, the window of the filter, not 21",
        "keys --engine golden --preset timing-counted-tiny --query-window 0":
        "query_window: must be between 1 and 20, ",
        "keys --engine golden --preset timing-counted-tiny --query-window 3s":
        "query_window: must be a number of insertions, not '3s'",
        "keys --engine golden --preset tiny --query-window 2":
        "query_window: family apbbf has a fixed window",
        "keys --engine golden --spec classes.toml":
        "the filter has 2 classes and needs a table",
        "keys --engine golden --preset dictionary-tiny --span 5s":
        "span: family window-dictionary has no time window",
    },
    "dedup": {
        "": "IN and OUT are missing",
        "one.pcap": "OUT is missing",
        "--dry-run": "IN is missing",
        "- one.pcap out": "standard input cannot be combined with other inputs",
        "one.pcap none out": "none: No such file",
        "in.snoop out": f"...its format is snoop; {EDITCAP}",
        "in.erf out": f"...its format is ERF; {EDITCAP}",
        "one.pcap in.snoop out": f"...its format is snoop; {EDITCAP}",
        "one.pcap in.erf out": f"...its format is ERF; {EDITCAP}",
        "one.pcap - --rotate-time 1s": "--rotate-size and --rotate-time require a regular ",
        "one.pcap fifo --rotate-time 1s": "--rotate-size and --rotate-time require a regular ",
        "one.pcap out --rotate-size=0MB": "Invalid value for '--rotate-size'",
        "one.pcap out '--rotate-size=1 XB'": "Invalid value for '--rotate-size'",
        "one.pcap out --rotate-size=-1kB": "Invalid value for '--rotate-size'",
        "one.pcap --out-dir new --rotate-size 1MB": "--rotate-size or --rotate-time cannot be com",
        "one.pcap out --offset 65536":
        "Invalid value for '--offset': 65536 is not in the range 0<=x<=65535.",
        "one.pcap out --span 50": f"span: {NUMBER}",
        "one.pcap out --span 1.5ns": "span: must be a whole number of nanoseconds, not '1.5 ns'",
        "one.pcap out --fields mac": FIELDS,
        "one.pcap out --span 1ns": "no filter meets --span 1 ns and --fpr 1e-06; try a longer ",
        "one.pcap out --fpr 1e-99": "no filter meets --span 50 ms and --fpr 1e-99; try a longer ",
        "one.pcap out --span 1000000000h": "--span: must be at most 13343 d, not 4.16667e+07 d",
        "one.pcap out --fpr 1": "Invalid value for '--fpr': 1.0 is not in the range 0<x<1.",
        "one.pcap out --mark no/such": "no/such: No such file or directory",
        "pairs.pcap out --mask x:00": "mask: must be OFFSET:HEX, such as 6:0000ff, not 'x:00'",
        "pairs.pcap out --mask 3:0": "mask: must be OFFSET:HEX, such as 6:0000ff, not '3:0'",
        "pairs.pcap out --mask 65536:00":
        "mask: must cover one or more bytes below offset 65,536, not 1 from offset 65,536",
        "pairs.pcap out --tpid 88": "tpid: must be an EtherType from 0600 to ffff, not 0088",
        "pairs.pcap out --tpid x": "tpid: must be hexadecimal, such as 9400, not 'x'",
        "pairs.pcap out --inner --tunnel tcp:9:2:ip": TUNNEL,
        "pairs.pcap out --inner --tunnel udp:0:2:ip":
        "tunnel: must have a port from 1 to 65,535 and skip at most 65,535 bytes",
        "pairs.pcap out --inner --tunnel udp:9:65536:ip":
        "...skip at most 65,535 bytes, not udp:9:65536",
        "pairs.pcap out --inner --fields mac": FIELDS,
    },
    "uniq": {
        "keys --window 0": "Invalid value for '--window'",
        "keys --fpr 0": "Invalid value for '--fpr'",
        "keys --fpr 2": "Invalid value for '--fpr'",
        "keys --span soon": f"span: {NUMBER}",
        "keys --field 1,x": "--field: must be a number such as 2, or a list such as 1,3, not",
        "keys --field 1,0": "field: must be between 1 and 2147483647, not 0",
        "keys --field 1 --delimiter ::": "delimiter: must be one byte, not b'::'",
        "keys --regex (": "regex: not a valid regular expression: missing )",
        "missing.log": "missing.log: No such file or directory",
        "keys --watch": "--watch needs a terminal on standard error",
        "bad.gz": "bad.gz: damaged gzip data",
    },
    "plan": {
        "": "give either --window, or --span with --rate (see 'lately plan --help')",
        "--window 9": "--fpr is missing (see 'lately plan --help')",
        "--window 9 --fpr 3": "Invalid value for '--fpr': 3.0 is not in the range 0<x<1. (see",
        "--window 9 --fpr 0.1 --family bloom": "family: must be one of apbf, apbbf, gebf, blocked-"
        "gebf, window-dictionary, partitioned-timing, timed-timing, not bloom",
        "--window 9 --fpr 0.1 --remove --family apbf":
        "family: must be window-dictionary for a window in insertions and removal, not apbf",
        "--span 2ms --rate 1k --fpr 0.1 --wrap frames-8 --family timed-timing":
        "--wrap frames-8 needs a ring, so --family must be one of apbf, apbbf, gebf, blocked-gebf",
        "--window 9 --fpr 0.1 --plot x.jpg": "--plot: must end in .svg or .png or .pdf, not 'x",
        "--bits 5": "with --bits or --block-rams, give either --fpr or a window (--window or",
        "--bits 5 --window 9 --fpr 0.1": "with --bits or --block-rams, give either ",
        "--bits 0 --window 9": "Invalid value for '--bits': 0 is not in the range x>=1.",
        "--bits 30 --window 2000 --family gebf":
        "bits: 30 is too few for a buildable filter of family gebf with a window of",
        "--block-rams 1 --fpr 0.01 --family gebf":
        "block-rams: 1 is too few for a buildable filter of family gebf with a rate of",
        "--window 1e6 --fpr 0.01 --device ice40-up5k --out new.toml --family blocked-gebf":
        "device: ice40-up5k cannot hold",
    },
    "export": {
        "--preset tiny": "give --name, the name of the module (see 'lately export --help')",
        "--name 'a b'": "name: must begin with a letter and contain only letters, digits and "
        "single "
        "underscores, not 'a b'",
        "--name x --preset none": "preset: unknown 'none'; ",
        "--name x --preset tiny --memory sram": "memory: must be 'portable', ",
        "--name x --preset timing-tiny --covered":
        "--covered needs a ring with a time window (see",
        "--name x --preset tiny --ticks tick":
        "--ticks needs a filter with a time window (see",
        "--name x --preset tiny --tag-bits 1000000": "tag_bits: must be at most 64, not 1000000",
        "--name x --preset tiny --device none": "device: unknown 'none'; ",
        "--name x --preset tiny --out-dir /proc/none/x": "/proc/none/x: ",
        "--name x --spec none.toml": "none.toml: ",
        "--name x --preset tiny --bus avalon": "Invalid value for '--bus': 'avalon' is not one of ",
        "--name x --preset tiny --wrap frames-8":
        "span: must be given for a frame deduplicator",
        "--name x --spec frames.toml --wrap frames-8 --buffer 3000":
        "Buffer must be a power of two, not 3000",
        "--name x --spec frames.toml --wrap frames-8 --bad-bit 1":
        "Bad bit must be at most 0, not 1",
        "--name x --spec frames.toml --wrap frames-8 --no-tready --on-overflow wait":
        "on_overflow: must be 'drop' for an input without TREADY, not 'wait'",
        "--name x --spec frames.toml --wrap frames-8 --max-frame 9000":
        "Buffer must be at least 18024 bytes to hold two frames of 9000 bytes, not 8192",
    },
    "host": {
        "--port /dev/none info": "/dev/none: ",
        "--port sim:none info": "preset: unknown ",
    },
}  # fmt: skip
"""By command: arguments, and how the message begins, or a part of it after three dots."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = write_files(tmp_path_factory.mktemp("messages"), FILES)
    FRAMES.to_toml(folder / "frames.toml")
    CLASSES.to_toml(folder / "classes.toml")
    shutil.copy(MADE / "encapsulated-copies.pcap", folder / "pairs.pcap")
    os.mkfifo(folder / "fifo")
    return folder


@pytest.mark.parametrize("command", MESSAGES)
def test_refused(command, folder, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(os.listdir())
    for words, message in MESSAGES[command].items():
        done = CliRunner().invoke(main, shlex.split(f"{command} {words}"))
        assert (done.exit_code, done.stdout) == (2, ""), words
        start = "" if message.startswith("...") else "lately: error: "
        assert start + message.removeprefix("...") in done.stderr, words
        assert done.stderr.startswith("lately: error: "), words
        assert done.stderr.count("\n") == 1, words
        assert sorted(os.listdir()) == before, words
