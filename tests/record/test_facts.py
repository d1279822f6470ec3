"""What the library is told of backends: the one table's facts, and what the command line says instead."""

from __future__ import annotations

import pytest

from hbtrace import backends
from hbtrace.errors import UsageError
from hbtrace.record.facts import encode_facts, load_facts


def test_facts_are_the_tables_under_each_name_of_a_registry() -> None:
    facts = load_facts()
    for name, runs_on in {"CUDA": "src", "ROCm": "src", "MTL": "src", "Metal": "src", "Vulkan": "dst"}.items():
        assert (facts[name].runs_on, facts[name].after_dst) == (runs_on, False)
    assert facts["SYCL"].drains == ("set",)
    assert facts["RPC"].drains == ("set", "get")
    assert "CPU" not in facts  # nothing is known of it that its calls do not tell


def test_what_is_known_has_a_source() -> None:
    unsourced = [b.name for b in backends.TABLE if (b.runs_on or b.drains) and not b.source]
    assert unsourced == []


def test_a_rule_of_the_command_line_replaces_what_it_names_only() -> None:
    facts = load_facts(["Vulkan=both", "SYCL=src,after-dst", "OWN=dst"])
    assert facts["Vulkan"].runs_on == "both"
    assert (facts["SYCL"].runs_on, facts["SYCL"].after_dst, facts["SYCL"].drains) == ("src", True, ("set",))
    assert facts["OWN"].runs_on == "dst"
    assert facts["CUDA"] == load_facts()["CUDA"]


@pytest.mark.parametrize("rule", ["CUDA", "CUDA=", "CUDA=up", "CUDA=src,before-dst", "=src", "A B=src"])
def test_a_rule_that_is_none_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match="give NAME=src, dst or both"):
        load_facts([rule])


def test_a_line_a_registry_and_a_tab_between_words() -> None:
    lines = encode_facts(load_facts(["OWN=dst,after-dst"])).splitlines()
    assert "OWN\tdst\t1\t" in lines
    assert 'RPC\t\t0\t["set", "get"]' in lines
