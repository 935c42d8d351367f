"""Packing: as many of the best hits as a budget holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hermes_mnemosyne.values import Hit

CHARS_PER_TOKEN = 4
_CUT_MARK = "\N{HORIZONTAL ELLIPSIS}"


def budget_of(chars: int | None, tokens: int | None) -> int | None:
    """Return the smaller of two budgets in characters, None when there is none."""
    budgets = [budget for budget in (chars, None if tokens is None else tokens * CHARS_PER_TOKEN) if budget is not None]
    return min(budgets, default=None)


def pack(hits: Sequence[Hit], limit: int, budget: int | None) -> tuple[list[Hit], bool]:
    """Return at most `limit` hits whose contents fit into `budget` characters, in order, and whether something was cut or left out.

    A hit that does not fit is passed over for smaller ones. The best hit is never passed over: where it does not fit it is cut
    to half the budget, and to what the others leave if that is more.
    """
    if budget is None:
        return list(hits[:limit]), False
    if not hits or limit < 1 or budget < 1:
        return [], bool(hits)
    first = hits[0]
    left_out = len(first.content) > budget
    reserved = budget - budget // 2 if left_out else len(first.content)
    room = budget - reserved
    packed: list[Hit] = []
    for hit in hits[1:]:
        if len(packed) + 1 >= limit:
            break
        if len(hit.content) <= room:
            packed.append(hit)
            room -= len(hit.content)
        else:
            left_out = True
    if len(first.content) > reserved:
        first = dataclasses.replace(first, content=shortened(first.content, reserved + room), cut=True)
    return [first, *packed], left_out


def shortened(text: str, length: int) -> str:
    """Return the beginning of a text in at most `length` characters, cut between words where possible, its end marked."""
    if len(text) <= length:
        return text
    head = text[: max(length - 1, 0)]
    at = head.rfind(" ")
    return (head[:at] if at > length // 2 else head) + _CUT_MARK
