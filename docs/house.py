"""The picture of the package on the developers' page, made from the code's own import statements.

python docs/house.py [PICTURE.svg] draws it; with --list it prints rooms, floors and circles.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "kernelmean"


def imports(source: Path = SOURCE) -> dict[str, set[str]]:
    """The files that every file imports, by dotted names without the package's; for types too."""
    files = {name_of(path, source): path for path in source.rglob("*.py")}
    found: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        here = [part for part in here if part]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*here[: len(here) - node.level + 1], *(node.module or "").split(".")]
                base = ".".join(part for part in base if part)
                for alias in node.names:
                    full = f"{base}.{alias.name}".strip(".")
                    found[name].add(full if full in files else base)
        found[name].discard(name)
    return found


def name_of(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rooms(files: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same between folders; the roof, the package's own `__init__`, is left out."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, others in files.items():
        for other in others:
            a, b = name.split(".")[0], other.split(".")[0]
            if a and b and a != b:
                found[a].add(b)
                found[b] |= set()
    return dict(found)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    todo = list(graph[start])
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo += graph[node]
    return seen


def floors(graph: dict[str, set[str]]) -> dict[str, int]:
    """One above the highest that it imports."""
    found: dict[str, int] = {}
    while len(found) < len(graph):
        ready = [a for a in graph if a not in found and graph[a] <= set(found)]
        if not ready:
            raise ValueError(f"a circle among {sorted(set(graph) - set(found))}")
        found |= {a: 1 + max((found[b] for b in graph[a]), default=0) for a in ready}
    return found


def lines(room: str, source: Path = SOURCE) -> int:
    """Lines of code: no blanks, comments or docstrings."""
    path = source / room
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    return sum(code_lines(file.read_text()) for file in files)


def code_lines(text: str) -> int:
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            told |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    every = enumerate(text.splitlines(), 1)
    return sum(1 for i, t in every if t.strip() and not t.strip().startswith("#") and i not in told)


def draw(path: Path) -> None:
    """Rooms on their floors; an arrow where no longer way down says the same."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    graph = rooms(imports())
    level = floors(graph)
    across = {f: sorted(r for r in level if level[r] == f) for f in set(level.values())}
    place = {
        room: ((i + 0.5) * 12 / len(row), f)
        for f, row in across.items()
        for i, room in enumerate(row)
    }
    fig, ax = plt.subplots(figsize=(10, 0.95 * len(across) + 0.4))
    for room, others in graph.items():
        direct = others - set().union(*(reachable(graph, other) for other in others))
        for other in direct:
            ax.annotate(
                "",
                xy=(place[other][0], place[other][1] + 0.24),
                xytext=(place[room][0], place[room][1] - 0.24),
                arrowprops={"arrowstyle": "->", "color": "0.6", "linewidth": 0.9},
            )
    for room, (x, y) in place.items():
        ax.text(
            *(x, y, f"{room}\n{lines(room):,} lines"),
            ha="center",
            va="center",
            fontsize=9,
            linespacing=1.3,
            bbox={"boxstyle": "round,pad=0.4", "facecolor": "#eef3f8", "edgecolor": "#41658a"},
        )
    ax.set(xlim=(0, 12), ylim=(0.5, len(across) + 0.5))
    ax.axis("off")
    fig.savefig(path, bbox_inches="tight")
    plt.close(fig)


def report() -> None:
    files = imports()
    circles = [name for name in files if name in reachable(files, name)]
    level = floors(rooms(files))
    print(f"{len(level)} rooms on {max(level.values())} floors; files in circles: {circles}")
    for room in sorted(level, key=level.__getitem__):
        print(f"{level[room]:3d}  {room:12s} {lines(room):6,d} lines of code")


if __name__ == "__main__":
    if "--list" in sys.argv:
        report()
    else:
        draw(Path(sys.argv[1] if len(sys.argv) > 1 else "house.svg"))
