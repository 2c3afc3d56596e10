"""Wall time as a user has it: nothing exported, default threads, each run in a fresh process.

python benchmarks/bench_wall.py [--quick] [--only TEXT …] [--against SRC] [--runs 5] [--at-once 4]

Every job runs ours, ours with one BLAS thread, and the peers, one after the other, as often as
`--runs` says, each time on another seed; medians are printed, and means of the errors. `--against`
adds ours from the src folder of another checkout. `--quick` leaves out what takes over ten seconds,
and runs once. `--at-once` starts as many processes at a time, as joblib or pytest-xdist would, and
says how much longer they take than the cores would need one after the other, a process a core.
Figures are kept in benchmarks/history, one file a commit, from which the docs draw their page on
speed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from compileall import compile_dir
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from _harness import Table, machine, peak_mb
from wall_jobs import JOBS, LONG, Job

HERE = Path(__file__).resolve()
SOURCE, HISTORY = HERE.parents[1] / "src", HERE.parent / "history"
SEED = 71
USERS = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN  # commands that are started, too
OURS, ALONE = "ours", "ours, one thread"
CROWDED = ["KernelIV, sigmoid, 5,000", "ConditionalDensity, 1,000 x 1", "KernelHMM, 2,000"]


# ---------------------------------------------------------------- in the fresh process
def child(name: str, way: str, seed: int, waits: bool, one_core: bool) -> None:
    """Wall and processor seconds, the memory added at most, and the error, as JSON."""
    warnings.simplefilter("ignore")
    if one_core:  # one BLAS thread would leave the library its own two
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    job = JOBS[name]
    data = job.data(seed)
    work = job.peers.get(way, job.ours)(data)
    if waits:
        print("ready", flush=True)
        sys.stdin.readline()
    before, start, used = peak_mb(*USERS), time.perf_counter(), _processor()
    answer = work()
    wall, cpu = time.perf_counter() - start, _processor() - used
    error = None if job.error is None else job.error(data, answer)
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak_mb(*USERS) - before, "error": error}))


def _processor() -> float:
    used = map(resource.getrusage, USERS)
    return sum(user.ru_utime + user.ru_stime for user in used)


# ---------------------------------------------------------------- outside
def run(name: str, way: str, seed: int, source: Path = SOURCE, *how: str) -> dict:
    return finish(start(name, way, seed, source, *how))


def start(
    name: str, way: str, seed: int, source: Path = SOURCE, *how: str
) -> subprocess.Popen[str]:
    compile_dir(source, quiet=2)  # as pip does, which a checkout without bytecode would pay for
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    environment["PYTHONPATH"] = str(source)
    if way == ALONE:
        environment["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, str(HERE), "--child", name, way, str(seed), *how]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=environment, text=True, **pipes)


def finish(process: subprocess.Popen[str]) -> dict:
    shown, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, process.args[3:]))}:\n{errors}")
    return json.loads(shown.splitlines()[-1])


def ways(job: Job, against: Path | None) -> Iterator[tuple[str, Path]]:
    yield from ((way, SOURCE) for way in (OURS, ALONE, *job.peers))
    if against is not None:
        yield "ours, other checkout", against.resolve()


def compare(names: list[str], runs: int, against: Path | None) -> list[dict]:
    """Medians of every way of every job, printed as they come."""
    table = Table(
        f"Wall seconds of {runs} run(s), each in a fresh process; ratio: over ours",
        *[
            f"{'job':>42}",
            f"{'way':>28}",
            "wall, s",
            "asked",
            "ratio",
            "CPU, s",
            "peak MB",
            "error",
        ],
    )
    rows = []
    for name in names:
        job = JOBS[name]
        found: dict[str, list[dict]] = {way: [] for way, _ in ways(job, against)}
        for k in range(runs):  # back and forth: what comes after a peer on all cores is slower
            for way, source in list(ways(job, against))[:: 1 - 2 * (k % 2)]:
                found[way].append(run(name, way, SEED + k, source))
        for way, results in found.items():
            row = {"job": name, "way": way, "runs": runs} | _middle(results)
            rows.append(row)
            asked = job.most if way == OURS else None
            ratio = row["wall"] / median(r["wall"] for r in found[OURS])
            table.row(name, way, row["wall"], asked, ratio, row["cpu"], row["peak"], row["error"])
    return rows


def _middle(results: list[dict]) -> dict:
    errors = [r["error"] for r in results if r["error"] is not None]
    middle = {key: median(r[key] for r in results) for key in ("wall", "cpu", "peak")}
    return middle | {"error": sum(errors) / len(errors) if errors else None}


def crowd(count: int, runs: int) -> list[dict]:
    """Equal processes at once, over what the cores need for so many one after the other."""
    table = Table(
        f"{count} processes at once on {os.cpu_count()} cores, medians of {runs} run(s)",
        *[f"{'job':>42}", "one, s", "all, s", "over the ideal"],
    )
    rows = []
    for name in CROWDED:
        both = [
            (run(name, ALONE, SEED, SOURCE, "--one-core")["wall"], slowest(name, count))
            for _ in range(runs)
        ]
        alone, together = map(median, zip(*both, strict=True))
        ideal = alone * max(1, count / (os.cpu_count() or 1))
        table.row(name, alone, together, together / ideal)
        rows.append({"job": name, "at_once": count, "alone": alone, "all": together})
    return rows


def slowest(name: str, count: int) -> float:
    """Seconds of the slowest of so many processes that begin their work at the same moment."""
    together = [start(name, OURS, SEED, SOURCE, "--wait") for _ in range(count)]
    for process in together:  # what is imported, and made, is not what is timed
        process.stdout.readline()
    for process in together:
        process.stdin.write("\n")
        process.stdin.flush()
    return max(result["wall"] for result in map(finish, together))


def keep(rows: list[dict], crowds: list[dict]) -> None:
    """One file a commit: jobs that were run now take the place of what stood there."""
    command = ["git", "-C", str(HERE.parent), "log", "-1", "--format=%h %cI"]
    commit, date = subprocess.run(command, capture_output=True, text=True).stdout.split()
    path = HISTORY / f"{commit}.json"
    old = json.loads(path.read_text()) if path.exists() else {"rows": [], "at_once": []}
    new = {row["job"] for row in rows}
    rows = [row for row in old["rows"] if row["job"] not in new] + rows
    asked = {(c["job"], c["at_once"]) for c in crowds}
    crowds = [c for c in old["at_once"] if (c["job"], c["at_once"]) not in asked] + crowds
    told = {"commit": commit, "date": date, "taken": f"{datetime.now(UTC):%Y-%m-%d}"}
    told |= {"machine": machine(os.cpu_count() or 1), "rows": rows, "at_once": crowds}
    HISTORY.mkdir(exist_ok=True)
    path.write_text(json.dumps(told, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--wait", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one-core", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="the short jobs, once")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="jobs whose names hold one of these"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--against", type=Path, help="src folder of another checkout")
    parser.add_argument("--at-once", type=int, default=0, help="processes at a time, besides")
    options = parser.parse_args()
    if options.child:
        name, way, seed = options.child
        child(name, way, int(seed), options.wait, options.one_core)
        return
    skipped = LONG if options.quick else set()
    names = [n for n in JOBS if n not in skipped and any(part in n for part in options.only)]
    runs = 1 if options.quick else options.runs
    print(machine(os.cpu_count() or 1), flush=True)
    rows = compare(names, runs, options.against)
    crowds = crowd(options.at_once, runs) if options.at_once else []
    keep(rows, crowds)


if __name__ == "__main__":
    main()
