"""Copies of objects, for what would not come about by itself."""

import copy
from functools import cached_property


def altered(found, **changes):
    """A copy with other attributes, and without what was formed of the old ones on first use."""
    other = copy.copy(found)
    kinds = vars(type(found))
    formed = [name for name in vars(found) if isinstance(kinds.get(name), cached_property)]
    for name in formed:
        del vars(other)[name]
    vars(other).update(changes)
    return other
