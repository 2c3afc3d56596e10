"""The page on speed, from the figures in benchmarks/history: one file for each commit measured.

python docs/speed.py [FOLDER] writes speed.svg, speed-history.svg and speed.md there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HISTORY = Path(__file__).parents[1] / "benchmarks" / "history"
OURS, ALONE, BEFORE = "ours", "ours, one thread", "ours, other checkout"


def taken(folder: Path = HISTORY) -> list[dict]:
    """The measurements, in the order of their commits."""
    return sorted(
        (json.loads(p.read_text()) for p in folder.glob("*.json")), key=lambda m: m["date"]
    )


def latest(history: list[dict]) -> dict[str, dict]:
    """Of each job what was measured last: its commit, and its rows by way, but ours of before."""
    found: dict[str, dict] = {}
    for measured in history:
        jobs: dict[str, dict] = {}
        for row in (row for row in measured["rows"] if row["way"] != BEFORE):
            jobs.setdefault(row["job"], {})[row["way"]] = row
        found |= {job: {"commit": measured["commit"], "ways": ways} for job, ways in jobs.items()}
    return found


def table(history: list[dict]) -> str:
    """Every figure, as Markdown."""
    lines = [
        "| job | way | wall, s | over ours | CPU, s | peak, MB | error | commit |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    for job, last in latest(history).items():
        for way, row in last["ways"].items():
            error = "" if row["error"] is None else f"{row['error']:.3g}"
            ratio = row["wall"] / last["ways"][OURS]["wall"]
            figures = f"{row['wall']:.3g} | {ratio:.2f} | {row['cpu']:.3g} | {row['peak']:.0f}"
            name = job if way == OURS else ""
            lines.append(f"| {name} | {way} | {figures} | {error} | {last['commit']} |")
    crowds = {
        (c["job"], c["at_once"]): f"{c['alone']:.2f} | {c['all']:.2f} | {measured['commit']}"
        for measured in history
        for c in measured["at_once"]
    }
    if crowds:
        head = "| at once | processes | one on one core, s | all, s | commit |"
        lines += ["", head, "|---|--:|--:|--:|---|"]
        lines += [f"| {job} | {count} | {told} |" for (job, count), told in crowds.items()]
    return "\n".join([*lines, "", f"Last taken on: {history[-1]['machine']}.", ""])


def draw(folder: Path) -> None:
    """Both pictures and the table."""
    import matplotlib

    matplotlib.use("Agg")

    history = taken()
    if not history:
        raise SystemExit(f"{HISTORY} holds no measurement: run benchmarks/bench_wall.py")
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "speed.md").write_text(table(history))
    _ways(latest(history), folder / "speed.svg")
    _history(history, folder / "speed-history.svg")


def _ways(jobs: dict[str, dict], path: Path) -> None:
    """Seconds of every job: ours, with one thread, and others'."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(8, 0.34 * len(jobs) + 0.9))
    for y, last in enumerate(jobs.values()):
        for way, row in last["ways"].items():
            filled = {"color": "#41658a", "zorder": 3} if way == OURS else {"color": "0.55"}
            marker = {OURS: "o", ALONE: "|"}.get(way, "x")
            ax.plot(row["wall"], y, marker, ms=6, **filled)
        others = [way for way in last["ways"] if way not in (OURS, ALONE)]
        others.sort(key=lambda way, ways=last["ways"]: ways[way]["wall"])
        beside = {"transform": ax.get_yaxis_transform(), "va": "center", "color": "0.4"}
        ax.text(1.01, y, "; ".join(others), fontsize=7, **beside)
    ax.set(xscale="log", xlabel="wall seconds", yticks=range(len(jobs)), yticklabels=list(jobs))
    ax.invert_yaxis()
    ax.grid(axis="x", color="0.92")
    fig.savefig(path, bbox_inches="tight")
    plt.close(fig)


def _history(history: list[dict], path: Path) -> None:
    """Ours by commit: a line for each job, over its first figure."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(8, 3.6))
    for job in latest(history):
        seen = [
            (i, row["wall"])
            for i, measured in enumerate(history)
            for row in measured["rows"]
            if (row["job"], row["way"]) == (job, OURS)
        ]
        at, wall = zip(*seen, strict=True)
        ax.plot(at, [w / wall[0] for w in wall], "o-", ms=4, lw=1, label=job)
    commits = [measured["commit"] for measured in history]
    ax.set(ylabel="wall seconds / first", xticks=range(len(commits)), yscale="log")
    ax.set_xticklabels(commits, rotation=45, ha="right", fontsize=8)
    ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    fig.savefig(path, bbox_inches="tight")
    plt.close(fig)


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
