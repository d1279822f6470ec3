"""The named faults of `simulate strata`: what each breaks, and by what it must be found."""

from __future__ import annotations

from typing import Final, NamedTuple

from hbtrace.strata.model.steps import COPY, RING


class StrataFault(NamedTuple):
    """One planted bug. expects: a check id, or `race`. mode: where it shows. seeded: of the list of ten."""

    name: str
    expects: str
    mode: str
    about: str
    seeded: bool = False
    bytes_right: bool = False
    """No byte of the session's state is ever wrong with it: equality of two arms cannot see it."""


FAULTS: Final = (
    StrataFault("spec-in-place", "strata.R1", RING, "a speculative commit writes the buffer that it reads", True),
    StrataFault("undo-in-current", "strata.R5", RING, "an undo replays in the current buffer, not in the record", True),
    StrataFault("undo-wrong-parity", "strata.R5", RING, "an undo uses the other verifier's record", True),
    StrataFault("serial-sel-00", "strata.R4", RING,
                "a commit in place selects buffer 0 while another is current", True),
    StrataFault("no-settle", "strata.S1", RING, "the state stays where it is when the request ends", True),
    StrataFault("word-not-set", "strata.W2", RING, "a commit leaves the device word as it was", True),
    StrataFault("settle-keeps-word", "strata.S1", RING, "a settle copies the state and leaves the device word", True),
    StrataFault("records-not-cleared", "strata.R6", RING, "an undo leaves the records", True, True),
    StrataFault("keep-own-parity-record", "strata.R7", RING, "a commit keeps its parity's old record", True, True),
    StrataFault("dst-ignores-records", "strata.R3", RING, "a commit chooses as if there were no records", True, True),
    StrataFault("snap-wait-removed", "race", COPY, "a speculative commit does not wait for the snapshot"),
    StrataFault("undo-keeps-one-more", "strata.R8", RING, "an undo keeps one token more than the verdict"),
    StrataFault("ple-prev-not-restored", "strata.C4", RING, "an undo goes on from the advanced ple_prev"),
    StrataFault("settle-first-stage-only", "strata.S5", RING, "only stage 0 settles (needs three stages)"),
    StrataFault("settle-always-copies", "strata.S3", RING, "a settle copies where the state was in place"),
    StrataFault("settle-before-drain", "strata.S1", RING, "a settle before the stages were drained"),
    StrataFault("window-writes-state", "strata.P2", RING, "a window commits its own token into the state"),
    StrataFault("snapshot-in-ring", "strata.X1", RING, "the side stream still takes snapshots"),
    StrataFault("one-verifier-unbound", "strata.W4", RING, "one verifier's graphs do not carry the ring"),
    StrataFault("bind-after-capture", "strata.W5", RING, "the ring is bound after the graphs were captured"),
    StrataFault("flag-raised-late", "strata.M3", RING, "a flag is raised for a window that is through"),
    StrataFault("window-words-early", "strata.M2", RING,
                "the host writes a verifier's words while its window may read them"),
    StrataFault("commit-words-early", "strata.M1", RING,
                "the host writes the commit words while the commit may read them"),
)  # fmt: skip
