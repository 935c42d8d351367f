"""Random sequences of writes, told apart by small numbers so that they meet each other's rows and texts often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from hermes_mnemosyne.clock import uuid7
from hermes_mnemosyne.store.operations import AddEntry, EditEntry, Forget, Operation, Retire, TurnText, Undo
from tests.conformance.world import EVERYTHING, HOME_A, HOME_B, World

TEXTS = ("apple", "pear", "plum", "apple pear", "plum pear apple")
PLACES = (("alpha", ""), ("beta", ""), ("alpha", "contact"))

_text = st.sampled_from(TEXTS)
_place = st.sampled_from(PLACES)
_which = st.integers(0, 9)
_late = st.booleans()
_home = st.sampled_from([HOME_A, HOME_B])

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            _place,
            _text,
            st.sets(st.sampled_from("rg")),
            st.sampled_from(["memory", "user"]),
            st.booleans(),
            _late,
        ),
        st.tuples(st.just("edit"), _which, _text, _late),
        st.tuples(st.just("tag"), _which, st.sets(st.sampled_from("rg")), _late),
        st.tuples(st.sampled_from(["retire", "undo", "forget"]), _which, _late),
        st.tuples(st.just("supersede"), _place, _which, _text),
        st.tuples(st.just("mirror"), st.sampled_from(["add", "replace", "remove"]), _home, _text, _text, _late),
        st.tuples(st.just("file"), _home, st.sets(_text, min_size=1), _late),
        st.tuples(
            st.just("say"), _place, st.lists(_text, min_size=1, max_size=3), st.sampled_from(["s1", "s2"]), st.booleans(), _late
        ),
    ),
    max_size=14,
)


def play(world: World, steps: list[tuple[Any, ...]]) -> None:
    """Do the steps. Late ones were made before their neighbour and wait until after it."""
    known: list[str] = [record["uid"] for record in world.exported()]
    waiting: list[Operation] = []
    for name, *step in steps:
        op = _made(world, name, step, known)
        if op is None:
            continue
        is_late = step[-1] is True and name != "supersede"
        if is_late:
            waiting.append(replace(op, spooled=True))
            continue
        for one in (op, *waiting):
            outcome = world.done(one)
            known += [uid for uid in (outcome.uid, *outcome.uids, getattr(one, "uid", "")) if uid and uid not in known]
        waiting.clear()
    for one in waiting:
        world.done(one)


def _made(world: World, name: str, step: list[Any], known: list[str]) -> Operation | None:  # noqa: PLR0911 - one per kind
    match name, *step:
        case "add", (theme, subject), text, tags, target, explicit, _:
            return world.make(
                AddEntry,
                uid=uuid7(),
                theme=theme,
                subject=subject,
                content=text,
                tags=tuple(sorted(tags)),
                target=target,
                explicit=explicit,
            )
        case "mirror", action, home, old, text, _:
            return world.mirroring(action, home, old_text=old, content=text)
        case "file", home, lines, _:
            return world.filing(*sorted(lines), origin=home)
        case "say", (theme, subject), texts, session, is_transcript, _:
            made = tuple(
                TurnText(uid=uuid7(), role="user", content=text, speaker="Ada" if "pear" in text else "") for text in texts
            )
            return world.turns(*made, theme=theme, subject=subject, session=session, transcript=is_transcript)
    if not known:
        return None
    match name, *step:
        case "edit", which, text, _:
            return world.about(EditEntry, known[which % len(known)], changes={"content": text})
        case "tag", which, tags, _:
            return world.about(EditEntry, known[which % len(known)], changes={"tags": tuple(sorted(tags)), "session_id": "s1"})
        case "supersede", (theme, subject), which, text:
            row = world.store.read(known[which % len(known)], EVERYTHING)
            if row is None or row.kind != "entry" or row.content == text or (row.theme, row.subject) != (theme, subject):
                return None
            twins = [other for other in world.rows(kinds=("entry",)) if other.content == text]
            return (
                None
                if twins
                else world.make(AddEntry, uid=uuid7(), theme=theme, subject=subject, content=text, supersedes=row.uid)
            )
        case verb, which, _:
            return world.about({"retire": Retire, "undo": Undo, "forget": Forget}[verb], known[which % len(known)])
    return None
