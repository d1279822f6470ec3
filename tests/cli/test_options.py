"""What options of the command line hand on becomes filters and settings, for every verb in the same way."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import click
import pytest

from hbtrace.cli.options import filter_options, filters_of, replay_options, settings_of
from hbtrace.races.filters import Filters
from hbtrace.replay.settings import Settings


def handed_on(*words: str) -> dict[str, Any]:
    """What a verb with these options is given."""
    verb = click.command()(filter_options(replay_options(lambda **given: given)))
    given: dict[str, Any] = verb.main(list(words), standalone_mode=False)
    return given


@pytest.mark.parametrize("name", [one.name for one in fields(Filters)])
def test_every_filter_has_an_option(name: str) -> None:
    value = {"split": "2-5", "ubatch": "2-5", "kind": "WAR", "ids": "R-*"}.get(name, "x*")
    read = {"split": ((2, 5),), "ubatch": ((2, 5),), "kind": ("write-after-read",), "ids": ("R-*",)}.get(name, ("x*",))
    filters = filters_of(handed_on(f"--{name.removesuffix('s')}", value))
    assert filters == Filters(**{name: read})  # type: ignore[arg-type]
    assert filters.used() == [name.removesuffix("s")]


def test_no_option_is_no_filter() -> None:
    assert not filters_of(handed_on())


def test_settings_of_a_verb_with_and_without_folding() -> None:
    given = handed_on("--threads", "one", "--strict")
    assert asdict(settings_of(given)) == asdict(Settings("one", strict=True))
    assert settings_of({**given, "fold_layers": True}).fold_layers
    assert settings_of(handed_on("--skip-weights")) == Settings(skip_weights=True)
