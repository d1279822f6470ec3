"""Lines made to keep an expression busy: a parser that goes back over them again and again would not end here."""

from __future__ import annotations

import resource

import pytest

from hbtrace.strata.logs.lines import prefixes, record

SIZE = 400_000
SHAPES = {
    "words before no colon": b"strata pipeline " + b"a " * SIZE,
    "requests that never decode": b"a request with " * (SIZE // 15),
    "blanks before no copy": b"GDN snapshot ring" + b" " * SIZE + b"x",
    "commas and blanks": b"GDN snapshot ring" + b", " * SIZE,
    "a word without a value": b"STATE_HASH L=1 " + b"w" * SIZE,
    "a switch without a value": b"strata pipeline switch: " + b"w" * SIZE,
    "digits": b"1" * SIZE,
    "digits and dots": b"1." * SIZE,
    "times that are none": b"1.000 " * (SIZE // 6),
    "hashes": b"STATE_HASH " * (SIZE // 11),
    "rings": b"GDN snapshot ring " * (SIZE // 18),
    "colours": b"\x1b[" * SIZE + b"\x1b[1;" + b"0" * SIZE,
    "dones": b"DONE 1 " * (SIZE // 7),
}


@pytest.mark.parametrize("line", SHAPES.values(), ids=SHAPES)
def test_a_hostile_line_is_gone_through_once(line: bytes) -> None:
    """20 s of CPU, where going back takes hours: a guard against hanging, no measurement."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    learned = prefixes([line + b"\n", line + b" DONE 1 2 3.0 4.0 stop 1 2 3\n"])
    for known in ([], learned):
        record(line + b"\n", known)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 20


def test_a_prefix_is_no_longer_than_a_log_driver_writes() -> None:
    begin = b"# request p0=7\n"
    assert len(prefixes([b"2026-12-01T00:00:00Z engine[12]: " + begin])) == 1
    assert prefixes([b"x" * 300 + b" " + begin]) == []
    assert prefixes([begin]) == []


def test_serial_and_off_say_why() -> None:
    serial = record(b"strata: a request with a grammar decodes serially\n")
    assert (serial.what, serial.values) == ("serial", {"why": "a grammar"})  # type: ignore[union-attr]
    off = record(b"strata pipeline: overlap is off: one device\n")
    assert (off.what, off.values) == ("off", {"why": "one device"})  # type: ignore[union-attr]
    assert record(b"strata pipeline: is off: nobody\n") is None
    assert record(b"a request with decodes serially\n") is None
