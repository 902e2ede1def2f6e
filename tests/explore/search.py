"""Breadth first through all worlds within some bounds: the first breach found has the shortest story."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from time import perf_counter

from kleader.election import events as e
from tests.explore.world import ALIVE, Bounds, Explored, Faults, PromiseError, Story, World


@dataclass
class Found:
    """What a search came to. ``story``: the numbered steps to a breach; none: the promise holds within the bounds."""

    worlds: int
    steps: int  # from the beginning to the last world
    transitions: int
    electors: int  # states of one election
    seconds: float
    whole: bool  # all worlds within the bounds were visited
    breach: str = ""
    story: tuple[str, ...] = ()


def explore(bounds: Bounds, *, most: int) -> Found:
    """Visit all worlds within the bounds; after ``most`` of them no further ones."""
    gc.disable()  # there are millions of values, and no circles
    try:
        return _explore(bounds, most)
    finally:
        gc.enable()


def _explore(bounds: Bounds, most: int) -> Found:
    began, explored = perf_counter(), Explored(bounds)
    first = _begin(bounds, explored)
    came: dict[World, tuple[World, Story] | None] = {first: None}
    ring, depth, transitions = [first], 0, 0

    def found(breach: str = "", story: tuple[str, ...] = (), *, whole: bool = True) -> Found:
        seconds = perf_counter() - began
        return Found(len(came), depth, transitions, len(explored.electors), seconds, whole, breach, story)

    while ring:
        depth, after = depth + 1, []
        for world in ring:
            try:
                following = explored.following(world)
            except PromiseError as error:
                return found(str(error), _told(explored, came, world, explored.doing), whole=False)
            transitions += len(following)
            for story, each in following:
                if each not in came:
                    came[each] = world, story
                    after.append(each)
        if len(came) > most:
            return found(whole=False)
        ring = after
    return found()


def _begin(bounds: Bounds, explored: Explored) -> World:
    """The first world to begin with: the way to it needs no fault."""
    ring, known = [explored.first()._replace(left=Faults())], set[World]()
    while bounds.begins != "never held":
        ring = [each for world in ring for _, each in explored.following(world) if each not in known]
        known.update(ring)
        for world in ring:
            a, b = world.members
            led = a.command == ALIVE and not a.requests
            acquired = len(world.object) > 1 and a.requests and a.requests[0].answer is not None
            if b.knows and b.watch >= 0 and not b.requests and (led if bounds.begins == "led" else acquired):
                return world._replace(left=bounds.faults)
    return explored.first()


def _told(
    explored: Explored, came: dict[World, tuple[World, Story] | None], world: World, last: Story
) -> tuple[str, ...]:
    steps, at = [(last, world)], world
    while before := came[at]:
        at, story = before
        steps.append((story, at))
    return tuple(f"{number}. {_line(explored, story)}" for number, (story, _) in enumerate(reversed(steps), 1))


def _line(explored: Explored, story: Story) -> str:
    name = explored.names[story.who] if story.who >= 0 else ""
    joint = "" if story.what.startswith("'") or not name else " "
    actions = [
        _action(each) for each in explored.actions[story.actions] if not isinstance(each, (e.Report, e.NewLeader))
    ]
    return f"{name}{joint}{story.what}{': ' if actions else ''}{', '.join(actions)}"


def _action(action: e.Action) -> str:
    match action:
        case e.Get():
            return "reads"
        case e.Write(_, _, base, record, incarnation):
            over = f"version {base.version}" if base else "nothing"
            return f"writes {record.holder or 'nobody'}/{incarnation} over {over}"
        case e.Watch(seen):
            return f"watches from {f'version {seen.version}' if seen else 'now on'}"
        case e.Acquired():
            return "leads"
    return type(action).__name__
