"""BLAS at one thread inside, as it was outside; independent tasks in order."""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

import kernelmean as km
from kernelmean.core.checks import NumericalWarning, hushed, warn_numerical
from kernelmean.core.threads import WORTH, cores, doors, one_thread, side_by_side, streamed

pytestmark = pytest.mark.usefixtures("short_searches")


def blas_threads() -> set[int]:
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def long_enough() -> None:
    """For a thread of its own."""
    time.sleep(2 * WORTH)


@pytest.fixture(autouse=True)
def _two():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_one_inside_and_as_before_outside():
    before = blas_threads()
    with one_thread(), one_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_one_until_the_last_thread_leaves():
    before, entered, leave, seen = blas_threads(), threading.Event(), threading.Event(), []

    def stay():
        with one_thread():
            entered.set()
            leave.wait(10)
            seen.append(blas_threads())
        seen.append(blas_threads())

    other = threading.Thread(target=stay)
    with one_thread():
        other.start()
        entered.wait(10)
    assert blas_threads() == {1}
    leave.set()
    other.join()
    assert seen == [{1}, before]
    assert blas_threads() == before


def test_any_thread_may_follow():
    """threadpoolctl would let the first thread alone that ever set a limit set another one."""

    def inside_and_after() -> tuple[set[int], set[int]]:
        with one_thread():
            inside = blas_threads()
        return inside, blas_threads()

    before = blas_threads()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            assert inside_and_after() == ({1}, before)
            assert pool.submit(inside_and_after).result() == ({1}, before)


def test_an_error_restores():
    before = blas_threads()
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert blas_threads() == before


@pytest.mark.parametrize("call", range(3))
def test_ctrl_c_on_the_way_in_or_out_restores(call, monkeypatch):
    """Setting the limits of a library takes longer than many an answer: it comes there."""
    before, kind, calls = blas_threads(), type(threadpool_library()), itertools.count()
    set_number = kind.set_num_threads

    def interrupted(library, number):
        set_number(library, number)
        if next(calls) == call:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kind, "set_num_threads", interrupted)
        with pytest.raises(KeyboardInterrupt), one_thread():
            pass
    for _ in range(2):
        assert blas_threads() == before
        with one_thread():
            assert blas_threads() == {1}
    assert blas_threads() == before


def threadpool_library():
    """One of those that NumPy and SciPy bring."""
    return ThreadpoolController().select(user_api="blas").lib_controllers[0]


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


def test_what_the_caller_does_about_underflow_is_no_matter():
    """A Gaussian is zero far away, and most of its matrix nearly so."""
    X = np.linspace(0, 40, 60)[:, None]
    fit = km.ConditionalDensity(km.Gaussian(0.5), 0.5, 1e-3).fit(X, np.sin(X[:, 0]))
    with np.errstate(all="raise"):
        again = km.ConditionalDensity(km.Gaussian(0.5), 0.5, 1e-3).fit(X, np.sin(X[:, 0]))
        found = again.predict(X)
    np.testing.assert_array_equal(found, fit.predict(X))


def test_doors_of_all_that_is_public():
    @doors()
    class Model:
        def one(self):
            return blas_threads()

        def _inside(self):
            return blas_threads()

        @property
        def known(self):
            return blas_threads()

    assert Model().one() == {1}
    assert Model()._inside() == Model().known == blas_threads()


def test_tasks_in_order_with_their_first_failure():
    assert side_by_side(lambda a: a * a, range(50), n_jobs=3) == [a * a for a in range(50)]
    assert side_by_side(abs, []) == []

    def fails(i):
        long_enough()
        raise ValueError(f"task {i}")

    with pytest.raises(ValueError, match="task 0"):
        side_by_side(fails, range(4), n_jobs=2)


def test_long_tasks_in_threads_with_one_of_blas():
    def where(_) -> tuple[int, set[int]]:
        long_enough()
        return threading.get_ident(), blas_threads()

    (first, _), *others = side_by_side(where, range(5), n_jobs=2)
    assert first == threading.get_ident()
    assert len({thread for thread, _ in others} - {first}) == 2
    assert all(blas == {1} for _, blas in others)


def test_short_tasks_where_they_are():
    assert set(side_by_side(lambda _: threading.get_ident(), range(50))) == {threading.get_ident()}


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

    first, *others = side_by_side(of_a_task, range(1 + outer), n_jobs=4)
    assert first <= cores()
    assert others == [each] * outer


def test_what_is_wanted_no_more_stops():
    """Ctrl-C, or an end of asking, does not wait for tasks of tasks that are under way."""
    done: list = []

    def work(item) -> None:
        time.sleep(0.01)
        done.append(item)

    def of_a_task(i: int) -> int:
        if i > 1:
            side_by_side(lambda j: work((i, j)), range(500))
        long_enough()
        return i

    answers = streamed(of_a_task, range(4), n_jobs=2)
    assert next(answers) == 0
    assert next(answers) == 1
    answers.close()
    assert len(done) < 100  # of 1,000


def test_a_failure_does_not_stop_tasks_ahead_of_it():
    def fails(i: int) -> int:
        if i > 1:
            raise ValueError(f"task {i}")
        return sum(side_by_side(lambda j: time.sleep(0.002) or j, range(50)))

    answers = streamed(fails, range(4), n_jobs=2)
    assert [next(answers), next(answers)] == 2 * [sum(range(50))]
    with pytest.raises(ValueError, match="task 2"):
        next(answers)


def test_a_warning_of_a_task_comes_out():
    with pytest.warns(UserWarning, match="of a task"):
        side_by_side(lambda i: warnings.warn("of a task", stacklevel=1), range(2), n_jobs=2)


def test_what_is_hushed_is_so_in_threads_that_work_for_it():
    with hushed():
        side_by_side(lambda i: warn_numerical(f"of {i}"), range(3), n_jobs=2, worth=0)
    with pytest.warns(NumericalWarning, match="of 1"):
        warn_numerical("of 1")


def test_cores():
    assert cores() >= 1
