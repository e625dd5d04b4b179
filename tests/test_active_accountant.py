"""Which open block a fit is charged to: the one around it, or a refusal, never another's."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import joblib
import pytest
from sklearn.base import BaseEstimator

from skriemdp._core.estimator import CarriesLedger
from skriemdp.ledger import _current as current
from skriemdp.ledger._accountant import BudgetError, PrivacyAccountant
from skriemdp.ledger._current import current_accountant


@pytest.fixture(params=["ab", "ba"])
def two(request):
    """Two accountants; the order in which the cases open them is the parameter."""
    handles = {name: PrivacyAccountant() for name in "ab"}
    yield [handles[name] for name in request.param]
    assert current.find() is None  # every block was closed again


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


async def fits_inside(handle, opened=None, count=4):
    """Names charged by fits in a block of a task, other tasks running in between."""
    found = []
    with handle:
        for _ in range(count):
            await turns()
            found.append(current_accountant())
    return found == [handle] * count


def test_tasks_charge_their_own_blocks(two):
    async def main():
        return await asyncio.gather(*map(fits_inside, two))

    assert asyncio.run(main()) == [True, True]


def test_task_groups_inside_a_block_charge_it(two):
    async def work():
        await turns()
        return current_accountant()

    async def grouped(handle):
        with handle:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work()) for _ in range(3)]
        return all(task.result() is handle for task in tasks)

    async def main():
        return await asyncio.gather(*map(grouped, two))

    assert asyncio.run(main()) == [True, True]


def test_threads_of_a_task_charge_its_block(two):
    async def threaded(handle):
        with handle:
            await turns()
            return await asyncio.to_thread(current_accountant) is handle

    async def main():
        return await asyncio.gather(*map(threaded, two))

    assert asyncio.run(main()) == [True, True]


def test_a_task_inside_a_synchronous_block_of_another_ledger(two):
    outer, inner = two

    async def work():
        return current_accountant()

    async def main():
        own = await asyncio.gather(fits_inside(inner), work())
        with inner:
            task = asyncio.ensure_future(work())
            with pytest.raises(BudgetError, match="cannot be seen"):
                await task  # its chain of calls shows `outer`, its context `inner`
        return own

    with outer:
        assert asyncio.run(main()) == [True, outer]


def test_executors_and_threads_without_a_context_are_refused_among_two(two):
    async def handed_over(handle, both_open):
        with handle:
            await both_open.wait()
            loop = asyncio.get_running_loop()
            with pytest.raises(BudgetError, match="cannot be seen"):
                await loop.run_in_executor(None, current_accountant)
            with pytest.raises(BudgetError, match="cannot be seen"):
                joblib.Parallel(2, backend="threading")([joblib.delayed(current_accountant)()] * 2)
            await both_open.wait()

    async def main():
        both_open = asyncio.Barrier(2)
        await asyncio.gather(*(handed_over(handle, both_open) for handle in two))

    asyncio.run(main())


def test_executors_and_joblib_threads_charge_the_only_ledger(two):
    handle, other = two
    with handle:
        calls = [joblib.delayed(current_accountant)()] * 4
        found = joblib.Parallel(2, backend="threading")(calls)
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(current_accountant).result())
        assert found == [handle] * 5
        with other:  # directly inside: the inner one is meant
            assert joblib.Parallel(2, backend="threading")(calls) == [other] * 4


def test_interleaved_generators_charge_their_own_blocks(two):
    def fits(handle):
        with handle:
            while True:
                yield current_accountant() is handle

    generators = [fits(handle) for handle in two]
    assert [next(generators[turn % 2]) for turn in range(10)] == [True] * 10
    for generator in generators:
        generator.close()


def test_a_paused_generator_inside_a_block_is_refused(two):
    outer, inner = two

    def paused():
        with inner:
            yield current_accountant()

    with outer:
        generator = paused()
        assert next(generator) is inner
        with pytest.raises(BudgetError, match="cannot be seen"):
            current_accountant()
        generator.close()
        assert current_accountant() is outer


def test_nesting_and_re_entry(two):
    outer, inner = two
    with outer, inner, outer:
        assert current_accountant() is outer
        with inner, inner:
            assert current_accountant() is inner
        assert current_accountant() is outer

        def called():
            with inner:
                return current_accountant()

        assert called() is inner
    with outer:
        with inner:
            assert current_accountant() is inner
        assert current_accountant() is outer


@contextlib.contextmanager
def helper(handle):
    with handle:
        yield


class Wrapper:
    """Someone's class that opens a block in its own `__enter__`."""

    def __init__(self, handle):
        self.handle = handle

    def __enter__(self):
        self.handle.__enter__()

    def __exit__(self, *error):
        self.handle.__exit__(*error)


@contextlib.contextmanager
def stacked(handle):
    with contextlib.ExitStack() as stack:
        stack.enter_context(handle)
        yield


@pytest.mark.parametrize("kind", [helper, Wrapper, stacked])
def test_helpers_charge_their_block_or_refuse(two, kind):
    outer, inner = two
    with kind(outer):
        assert current_accountant() is outer
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(current_accountant).result() is outer
        with inner:
            assert current_accountant() is inner
    with kind(outer), kind(inner), pytest.raises(BudgetError, match="cannot be seen"):
        current_accountant()
    with outer:
        with kind(inner), pytest.raises(BudgetError, match="cannot be seen"):
            current_accountant()
        with kind(outer):
            assert current_accountant() is outer
        assert current_accountant() is outer


def test_helpers_in_tasks(two):
    async def fits(handle):
        with helper(handle):
            await turns()
            return current_accountant() is handle

    @contextlib.asynccontextmanager
    async def asynchronous(handle):
        with handle:
            yield

    async def fits_too(handle):
        async with asynchronous(handle):
            await turns()
            return current_accountant() is handle

    async def main():
        return await asyncio.gather(*map(fits, two), *map(fits_too, two))

    assert asyncio.run(main()) == [True] * 4


def test_two_ledgers_in_one_stack_are_refused(two):
    with contextlib.ExitStack() as stack:
        for handle in two:
            stack.enter_context(handle)
        with pytest.raises(BudgetError, match="accountant="):
            current_accountant()


def test_threads_keep_their_own_blocks(two):
    barrier, found = threading.Barrier(2), []

    def work(handle):
        with handle:
            barrier.wait(30)
            found.append(current_accountant() is handle)
            barrier.wait(30)

    threads = [threading.Thread(target=work, args=(handle,)) for handle in two]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True, True]


def test_a_block_keeps_no_frame_after_it_is_left():
    class Witness:
        pass

    import gc
    import weakref

    def work(handle):
        local = Witness()
        with handle:
            return weakref.ref(local)

    handle = PrivacyAccountant()
    reference = work(handle)
    gc.collect()
    assert reference() is None


class Sent(CarriesLedger, BaseEstimator):
    """Stands in for an unfitted estimator that is sent to a worker process."""

    accountant = None

    def whose(self):
        return current_accountant(self._ledger_token)


def sent_to_a_worker(estimator):
    return joblib.Parallel(2, backend="loky")([joblib.delayed(estimator.whose)()] * 2)


@pytest.mark.slow
@pytest.mark.parametrize("two", ["ab", "ba"], indirect=True)
def test_worker_processes_started_from_a_task(two):
    async def alone(handle):
        with handle:
            await turns()
            return sent_to_a_worker(Sent())

    handle, other = two
    assert asyncio.run(alone(handle)) == [handle] * 2

    async def among_two(handle, both_open):
        with handle:
            await both_open.wait()
            # joblib pickles in a thread of its own, which belongs to neither task
            with pytest.raises(BudgetError, match="accountant="):
                sent_to_a_worker(Sent())
            await both_open.wait()

    async def main():
        both_open = asyncio.Barrier(2)
        await asyncio.gather(*(among_two(handle, both_open) for handle in two))

    asyncio.run(main())
    with other, pytest.raises(AssertionError):
        assert sent_to_a_worker(Sent()) == [handle] * 2  # the comparison above can fail
