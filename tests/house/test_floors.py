"""The house stands: imports go down, no circles, and underscores stay inside their package.

Over all imports of `src/kernelmean`: at the top of a file, for types, inside functions, and by
`importlib.import_module("…")`. `kernelmean/__init__.py` is the roof, which sees every floor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
FLOORS = [
    *("core", "metrics", "kernels", "embedding", "features", "regression", "densities", "chains"),
    *("bayes", "filtering", "instruments", "hmm", "statespace", "adapters", "datasets"),
    *("comparators", "display", "app", "__main__"),
]
FILES = {
    ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SRC.rglob("*.py"))
}


def room(module: str) -> str:
    """The package, or the file beside the packages, that a module lies in; "" for the roof."""
    return f"{module}.".split(".")[1]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def imports(module: str) -> Iterator[tuple[str, str]]:
    """(module, name) of everything of the package that a file imports; the name may be ""."""
    package = module.split(".")[: None if FILES[module].name == "__init__.py" else -1]
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *filter(None, [node.module])])
            for name in node.names:
                whole = f"{base}.{name.name}"
                yield (whole, "") if whole in FILES else (base, name.name)
        elif isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)
        elif isinstance(node, ast.Call) and called(node.func) == "import_module":
            parts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            if parts:
                up = len(parts[0]) - len(parts[0].lstrip("."))
                start = package[: len(package) - up + 1] if up else []
                yield ".".join([*start, parts[0].lstrip(".")]), ""


def called(function: ast.expr) -> str:
    """The name of what is called, without that of its module."""
    return getattr(function, "attr", getattr(function, "id", ""))


@cache
def edges(module: str) -> frozenset[tuple[str, str]]:
    return frozenset((to, name) for to, name in imports(module) if to in FILES and to != module)


@cache
def defined() -> dict[str, set[str]]:
    """Underscore names, and the packages that define them: as functions, classes, assignments."""
    homes: dict[str, set[str]] = {}
    for module in FILES:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                homes.setdefault(node.name, set()).add(room(module))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                homes.setdefault(node.attr, set()).add(room(module))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                homes.setdefault(node.id, set()).add(room(module))
    return homes


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def upwards(module: str) -> set[str]:
    """What it imports from above."""
    return {
        f"{module} -> {to}"
        for to, _ in edges(module)
        if not room(to) or FLOORS.index(room(to)) > FLOORS.index(room(module))
    }


def foreign(module: str) -> set[str]:
    """Underscore names of other packages that it imports or asks for, inherited ones too."""
    taken = {name for to, name in edges(module) if private(name) and room(to) != room(module)}
    asked = {n.attr for n in ast.walk(tree(module)) if isinstance(n, ast.Attribute)}
    homes = defined()
    taken |= {a for a in asked if private(a) and room(module) not in homes.get(a, {room(module)})}
    return {f"{module}: {name}" for name in taken}


@cache
def circular() -> frozenset[str]:
    """The files that import themselves, by whatever way round."""

    def reached(module: str) -> set[str]:
        found: set[str] = set()
        todo = [module]
        while todo:
            new = {to for to, _ in edges(todo.pop())} - found
            found |= new
            todo += new
        return found

    return frozenset(f"{module} in a circle" for module in HOUSE if module in reached(module))


HOUSE = [module for module in FILES if room(module)]


def test_every_room_has_a_floor():
    assert {room(module) for module in HOUSE} <= set(FLOORS)


@pytest.mark.parametrize("module", HOUSE)
def test_imports_go_down(module):
    assert not upwards(module)


def test_no_circles():
    assert not circular()


@pytest.mark.parametrize("module", HOUSE)
def test_underscores_stay_inside_their_package(module):
    assert not foreign(module)
