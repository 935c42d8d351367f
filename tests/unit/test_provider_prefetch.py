"""The text that is recalled before a turn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.capture import RECALL_HEADING, strip_injected
from hermes_mnemosyne.hermes.provider.prefetch import Recalled, excerpt, render
from hermes_mnemosyne.values import Hit, Origin

WHEN = "2026-11-30T12:00:00.000000Z"
ANY_TEXT = st.text(st.characters(codec=None), max_size=400)


def entry(content: str, uid: str = "u-1", **fields: object) -> Hit:
    return Hit(uid=uid, kind="entry", theme="hermes", content=content, score=1.0, target="memory", created_at=WHEN, **fields)  # type: ignore[arg-type]


def shown(*hits: Hit, budget: int = 1600, query: str = "boat") -> Recalled:
    return render(hits, query=query, theme="hermes", budget=budget)


def test_nothing_is_shown_for_no_hits_and_for_a_budget_without_room() -> None:
    assert shown() == Recalled()
    assert shown(entry("The boat is red."), budget=20) == Recalled()


def test_each_line_says_when_what_and_where_from() -> None:
    said = Hit(
        uid="u-2",
        kind="turn",
        theme="marketing",
        content="I saw the boat.",
        score=0.5,
        role="user",
        speaker="Ada",
        occurred_at="2025-01-02T00:00:00.000000Z",
    )
    text = shown(entry("The boat is red.", origins=(Origin("file", "x"), Origin("import", "y"))), said).text
    assert text.splitlines()[1:] == [
        "- [2026-11-30, memory, import] The boat is red.",
        "- [2025-01-02, Ada said, theme marketing] I saw the boat.",
    ]


def test_a_hit_that_does_not_fit_makes_room_for_smaller_ones() -> None:
    found = shown(entry("The long story of the boat. " * 20, uid="long"), entry("The boat is red.", uid="short"), budget=200)
    assert found.uids == ("short",)


def test_a_single_hit_that_does_not_fit_is_cut_and_marked() -> None:
    found = shown(entry("The long story of the boat. " * 20, uid="long"), budget=200)
    assert found.uids == ("long",)
    assert found.text.endswith("…")


def test_a_long_text_is_shown_from_around_the_words_of_the_query() -> None:
    text = "Nothing of interest here. " * 100 + "The password of the lighthouse is Perelandra. " + "Again nothing. " * 100
    part = excerpt(text, "what is the lighthouse called?", 300)
    assert "Perelandra" in part[:300]
    assert part.startswith("…")
    assert excerpt("short", "lighthouse", 300) == "short"


@given(contents=st.lists(ANY_TEXT, max_size=8), query=ANY_TEXT, budget=st.integers(-5, 3000))
def test_the_text_keeps_to_its_budget_and_every_memory_to_its_line(contents: list[str], query: str, budget: int) -> None:
    found = shown(*(entry(content, uid=str(number)) for number, content in enumerate(contents)), budget=budget, query=query)
    lines = found.text.splitlines()
    assert len(found.text) <= max(budget, 0)
    assert len(found.uids) == len(lines[1:])
    assert all(line.startswith("- [2026-11-30, memory] ") for line in lines[1:])
    assert not contents or budget < 300 or found.uids
    found.text.encode()


@given(contents=st.lists(ANY_TEXT, min_size=1, max_size=8))
def test_the_text_is_taken_out_again_before_anything_is_stored(contents: list[str]) -> None:
    text = shown(*(entry(content, uid=str(number)) for number, content in enumerate(contents))).text
    assert text.startswith(RECALL_HEADING)
    assert strip_injected(f"{text}\nMy own words.").strip() == "My own words."
