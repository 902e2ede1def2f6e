"""Bounds of what is awaited."""

from __future__ import annotations

import asyncio

import pytest

from kleader.kube.timeout import within


def test_cancellation_at_the_moment_of_the_result_is_not_lost() -> None:
    async def story() -> None:
        answer = asyncio.get_running_loop().create_future()

        async def follow() -> None:
            async with within(60):
                await answer
            await asyncio.Event().wait()

        task = asyncio.ensure_future(follow())
        await asyncio.sleep(0)
        answer.set_result(None)
        task.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.cancelled()

    asyncio.run(story())


def test_block_that_takes_longer_raises_timeout_error() -> None:
    async def story() -> None:
        with pytest.raises(asyncio.TimeoutError):
            async with within(0.01):
                await asyncio.Event().wait()

    asyncio.run(story())
