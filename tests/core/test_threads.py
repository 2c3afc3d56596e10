"""BLAS at one thread inside, as it was outside; independent tasks in order."""

from __future__ import annotations

import threading
import time
import warnings
from collections import Counter

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kernelmean.core.threads import cores, doors, one_thread, side_by_side, streamed

pytestmark = pytest.mark.usefixtures("short_searches")


def blas_threads() -> set[int]:
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_one_inside_and_as_before_outside():
    before = blas_threads()
    with one_thread(), one_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_a_second_thread_neither_sets_nor_restores():
    before, entered, leave, seen = blas_threads(), threading.Event(), threading.Event(), []

    def stay():
        with one_thread():
            entered.set()
            leave.wait(10)
        seen.append(blas_threads())

    other = threading.Thread(target=stay)
    with one_thread():
        other.start()
        entered.wait(10)
        leave.set()
        other.join()
        assert seen == [{1}]
    assert blas_threads() == before


def test_an_error_restores():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert blas_threads() == before


def test_doors():
    @doors("fit")
    class Model:
        def fit(self):
            """Its docstring."""
            return blas_threads()

        def other(self):
            return blas_threads()

    assert Model().fit() == {1}
    assert Model.fit.__doc__ == "Its docstring."
    assert Model().other() == blas_threads()


def test_tasks_in_order_with_their_first_failure():
    assert side_by_side(lambda a: a * a, range(50), n_jobs=3) == [a * a for a in range(50)]
    assert side_by_side(lambda a: blas_threads(), [1, 2], n_jobs=2) == [{1}, {1}]
    assert side_by_side(abs, []) == []

    def fails(i):
        raise ValueError(f"task {i}")

    with pytest.raises(ValueError, match="task 0"):
        side_by_side(fails, range(4), n_jobs=2)


@pytest.mark.parametrize(("outer", "each"), [(2, 2), (3, 1), (8, 1)])
def test_tasks_of_tasks_share_the_cores(outer, each):
    """Four at once where four were asked for, not sixteen."""
    at_work: Counter = Counter()

    def work(item) -> int:
        at_work[item] += 1
        time.sleep(0.02)
        found = at_work[item]
        at_work[item] -= 1
        return found

    def of_a_task(i: int) -> int:
        return max(side_by_side(lambda _: work(i), range(8)))

    assert side_by_side(of_a_task, range(outer), n_jobs=4) == [each] * outer


def test_what_is_wanted_no_more_stops():
    """Ctrl-C, or an end of asking, does not wait for tasks of tasks that are under way."""
    done: list = []

    def work(item) -> None:
        time.sleep(0.01)
        done.append(item)

    def of_a_task(i: int) -> int:
        if i:
            side_by_side(lambda j: work((i, j)), range(500))
        return i

    answers = streamed(of_a_task, range(4), n_jobs=2)
    assert next(answers) == 0
    answers.close()
    assert len(done) < 100  # of 1,500


def test_a_failure_does_not_stop_tasks_ahead_of_it():
    def fails(i: int) -> int:
        if i:
            raise ValueError(f"task {i}")
        return sum(side_by_side(lambda j: time.sleep(0.002) or j, range(50)))

    answers = streamed(fails, range(3), n_jobs=2)
    assert next(answers) == sum(range(50))
    with pytest.raises(ValueError, match="task 1"):
        next(answers)


def test_a_warning_of_a_task_comes_out():
    with pytest.warns(UserWarning, match="of a task"):
        side_by_side(lambda i: warnings.warn("of a task", stacklevel=1), range(2), n_jobs=2)


def test_cores():
    assert cores() >= 1
