"""Two visitors share one model and never see each other."""

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from model.hooks import AttentionHook, AttentionRecorder, AttentionSite, attention_hook, hooks_active
from tests.model.factories import SITES, SRC_IDS, TGT_IN_IDS, tiny_model, zero_head


def test_two_threads_with_different_hooks_at_the_same_time():
    shared = tiny_model()
    plain = shared(SRC_IDS, TGT_IN_IDS)
    with attention_hook(zero_head(0)):
        zeroed = shared(SRC_IDS, TGT_IN_IDS)
    with attention_hook(AttentionRecorder()) as alone:
        shared(SRC_IDS, TGT_IN_IDS)
    barrier, failures = threading.Barrier(3, timeout=60), []
    reader, changed_sites, results = AttentionRecorder(), [], {}

    def visit(name: str, hook: AttentionHook) -> None:
        def together(site: AttentionSite, weights: Tensor) -> Tensor | None:
            barrier.wait()  # at every site, so that each thread is inside its block while the others compute
            return hook(site, weights)

        try:
            with attention_hook(together):
                results[name] = shared(SRC_IDS, TGT_IN_IDS)
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    def change(site: AttentionSite, weights: Tensor) -> Tensor:
        changed_sites.append(site)
        return zero_head(0)(site, weights)

    def visit_without() -> None:
        try:
            for _ in SITES:
                barrier.wait()
                assert not hooks_active()
                results["neither"] = shared(SRC_IDS, TGT_IN_IDS)
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [
        threading.Thread(target=visit, args=("reader", reader)),
        threading.Thread(target=visit, args=("changer", change)),
        threading.Thread(target=visit_without),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert changed_sites == SITES
    torch.testing.assert_close(results["reader"], plain, atol=1e-5, rtol=0)
    assert torch.equal(results["changer"], zeroed)
    assert torch.equal(results["neither"], plain)
    assert list(reader.weights) == SITES
    for site in SITES:
        assert torch.equal(reader.weights[site], alone.weights[site])
    assert not hooks_active()


def test_a_thread_of_a_pool_starts_without_the_callers_hook():
    with ThreadPoolExecutor(1) as pool, attention_hook(lambda site, weights: None):
        assert hooks_active()
        assert not pool.submit(hooks_active).result()


def test_a_hook_set_in_a_pools_thread_is_gone_for_its_next_task():
    def run() -> bool:
        with attention_hook(AttentionRecorder()):
            tiny_model().encode(SRC_IDS)
        return hooks_active()

    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(run).result()
        assert not pool.submit(hooks_active).result()


def test_two_tasks_of_one_event_loop():
    async def visit(others: asyncio.Event, mine: asyncio.Event) -> list[AttentionSite]:
        seen: list[AttentionSite] = []
        with attention_hook(lambda site, weights: seen.append(site)):
            mine.set()
            await others.wait()  # both are inside their blocks now
            tiny_model().encode(SRC_IDS)
            await asyncio.sleep(0)
        return seen

    async def both() -> list[list[AttentionSite]]:
        first, second = asyncio.Event(), asyncio.Event()
        return await asyncio.wait_for(asyncio.gather(visit(first, second), visit(second, first)), timeout=30)

    with ThreadPoolExecutor(1) as pool:  # a thread of its own: the browser tests keep an event loop running in this one
        assert pool.submit(asyncio.run, both()).result() == [SITES[:2], SITES[:2]]


def test_a_copied_context_carries_the_hook_along():
    """What a framework does that runs a handler in a worker on the caller's behalf."""
    with attention_hook(lambda site, weights: None):
        context = contextvars.copy_context()
    assert context.run(hooks_active) and not hooks_active()
