"""What is sealed can be read with its key only, and nothing of it can be changed or put in another place unseen."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne._errors import ConfigError
from hermes_mnemosyne.store.replicating import Sealed
from hermes_mnemosyne.sync import seal_keys
from hermes_mnemosyne.sync.seal import Sealer, SealError, SealKey, from_wire, to_wire

OLD, NEW = SealKey.of(bytes(range(32))), SealKey.of(bytes(range(1, 33)))
CLOCK = "0180000000000000-aaaaaaaaaaaaaaaa"
ENTRY = {
    "type": "entry",
    "uid": "u1",
    "theme": "Fjord",
    "subject": "",
    "content": "The harbour master wears hat 3.",
    "clock": CLOCK,
}
VERSION = {**ENTRY, "type": "history", "action": "edited", "at": "2026-11-30T12:00:00.000000Z", "before": {"content": "hat 2"}}
ALIAS = {"type": "alias", "uid": "u2", "survivor": "u1", "clock": CLOCK, "theme": "fjord", "subject": ""}
GRAVE = {**ENTRY, "type": "tombstone", "kind": "entry", "state": "forgotten"}
RECORDS = (ENTRY, VERSION, ALIAS, GRAVE, {**ENTRY, "vector": [0.5]})

json_texts = st.text(st.characters(exclude_categories=["Cs"]))


def sealer(*keys: SealKey) -> Sealer:
    return Sealer(keys or (OLD,))


def through_the_wire(sealed: Sealed) -> Sealed:
    return from_wire(json.loads(json.dumps(to_wire(sealed))))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["type"])
def test_what_was_sealed_opens_as_it_was_but_for_its_vector(record: Mapping[str, Any]) -> None:
    opened = sealer().open(through_the_wire(sealer().seal(record)))
    assert opened == {name: value for name, value in record.items() if name != "vector"}


@given(content=json_texts, theme=json_texts, uid=json_texts, tags=st.lists(json_texts))
def test_every_text_survives(content: str, theme: str, uid: str, tags: list[str]) -> None:
    record = {**ENTRY, "content": content, "theme": theme, "uid": uid, "tags": tags}
    assert sealer().open(sealer().seal(record)) == record


@pytest.mark.parametrize("record", RECORDS[:4], ids=lambda record: record["type"])
def test_nothing_of_a_record_is_seen_from_outside(record: Mapping[str, Any]) -> None:
    line = json.dumps(to_wire(sealer().seal(record)))
    assert all(
        word not in line.casefold() for word in ("fjord", "harbour", "hat", "edited", "entry", "history", "alias", "tombstone")
    )


def test_only_the_state_of_a_row_has_no_slot_and_what_has_ended_says_so() -> None:
    found = [(bool(one.slot), one.gone) for one in map(sealer().seal, RECORDS)]
    assert found == [(False, ""), (True, ""), (False, "slot"), (False, "row"), (False, "")]
    assert sealer().seal({**VERSION, "before": {}}).gone == "slot"
    assert sealer().seal({**GRAVE, "state": "retired"}).gone == ""


def test_slots_of_versions_differ_and_tell_nothing_of_others() -> None:
    versions = [{**VERSION, "uid": uid, "action": action} for uid in ("u1", "u2") for action in ("edited", "retired")]
    assert len({sealer().seal(one).slot for one in versions}) == 4
    assert sealer().seal(VERSION).slot != sealer(NEW).seal(VERSION).slot


def test_the_same_record_is_the_same_box_and_another_one_is_not() -> None:
    assert sealer().seal(ENTRY) == sealer().seal({**ENTRY, "vector": [1.0]}) == sealer().seal(dict(reversed(ENTRY.items())))
    boxes = {sealer().seal(one).tag for one in (ENTRY, {**ENTRY, "uid": "u2"}, {**ENTRY, "content": "another"})}
    assert len(boxes) == 3


def test_a_theme_has_one_name_whatever_its_case_and_another_under_another_key() -> None:
    assert sealer().seal(ENTRY).theme == sealer().seal({**ENTRY, "theme": "fjord"}).theme == sealer().theme_ids("FJORD")[0]
    assert len(set(sealer(OLD, NEW).theme_ids("fjord"))) == 2


def test_a_change_of_any_byte_is_noticed() -> None:
    sealed = sealer().seal(ENTRY)
    for place in range(len(sealed.box)):
        box = bytearray(sealed.box)
        box[place] ^= 1
        with pytest.raises(SealError, match="damaged, or was changed"):
            sealer().open(replace(sealed, box=bytes(box)))
    for length in (0, 1, 15, 16, 17, len(sealed.box) - 1):
        with pytest.raises(SealError):
            sealer().open(replace(sealed, box=sealed.box[:length]))


@pytest.mark.parametrize(
    "change",
    [
        {"uid": "u2"}, {"slot": "ab" * 16}, {"theme": "cd" * 16}, {"clock": "0180000000010000-aaaaaaaaaaaaaaaa"}, {"gone": "slot"},
        {"gone": "row"},
    ],
    ids="-".join,
)  # fmt: skip
def test_a_change_of_any_field_outside_is_noticed(change: dict[str, str]) -> None:
    with pytest.raises(SealError) as failure:
        sealer().open(replace(sealer().seal(ENTRY), **change))
    assert (failure.value.key, failure.value.known) == (OLD.id, True)


def test_boxes_cannot_change_places() -> None:
    one, other = sealer().seal(ENTRY), sealer().seal({**ENTRY, "uid": "u2"})
    with pytest.raises(SealError):
        sealer().open(replace(one, box=other.box))


def test_a_key_that_is_not_at_hand_is_named() -> None:
    with pytest.raises(SealError, match=NEW.id) as failure:
        sealer(OLD).open(sealer(NEW).seal(ENTRY))
    assert not failure.value.known
    with pytest.raises(SealError):
        sealer(OLD).open(replace(sealer(NEW).seal(ENTRY), key=OLD.id))


def test_the_first_key_seals_and_all_open() -> None:
    both = sealer(NEW, OLD)
    assert both.seal(ENTRY).key == NEW.id
    assert both.open(sealer(OLD).seal(ENTRY)) == ENTRY


def test_what_is_sealed_anew_names_what_it_replaces() -> None:
    both = sealer(NEW, OLD)
    assert both.seal(ENTRY, anew=True).over == (sealer(OLD).seal(ENTRY).tag,)
    assert both.seal(VERSION, anew=True).moved == (sealer(OLD).seal(VERSION).slot,)
    assert (both.seal(ENTRY).over, sealer(NEW).seal(ENTRY, anew=True).over) == ((), ())


def test_what_is_no_record_inside_is_not_opened() -> None:
    class Lying(Sealer):
        """Seals anything."""

        def lie(self, text: bytes) -> Sealed:
            return self._sealed(ENTRY, text, OLD)

    for text in (b"", b"[]", b"{", b"null", b'{"type":"entry"}', json.dumps({**ENTRY, "uid": "u2"}).encode(), b"\xff"):
        with pytest.raises((SealError, ValueError)):
            sealer().open(Lying([OLD]).lie(text))


@pytest.mark.parametrize(
    "change",
    [
        {"type": "entry"}, {"uid": ""}, {"uid": 5}, {"uid": "x" * 1025}, {"uid": "a\nb"}, {"slot": "AB" * 16}, {"slot": None}, {"theme": ""},
        {"theme": "fjord"}, {"key": ""}, {"key": "x" * 16}, {"clock": "late"}, {"clock": None}, {"gone": "all"}, {"gone": None},
        {"gone": []}, {"box": ""}, {"box": "AAAA"}, {"box": "å" * 40}, {"box": 7}, {"over": "x"}, {"over": ["x"]},
        {"moved": ["ab" * 16] * 17}, {"slot": "ab" * 16, "gone": "row"},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_sealed_record_is_not_taken_for_one(change: dict[str, Any]) -> None:
    record = to_wire(sealer().seal(ENTRY))
    with pytest.raises(ValueError, match=r"must be|is not sealed"):
        from_wire({**record, **change})


# -- the key file ----------------------------------------------------------------------------------------------------------------


def key_file(directory: Path, text: str) -> str:
    path = directory / "seal.keys"
    path.touch(mode=0o600)
    path.write_text(text)
    return str(path)


def found(path: str | None = None, setting: str | None = None, **environ: str) -> Sealer | None:
    return seal_keys.sealer_of(flag=path, setting=setting, environ=environ)


def test_a_file_holds_one_key_a_line(tmp_path: Path) -> None:
    first, second = seal_keys.new_key(), seal_keys.new_key()
    both = found(key_file(tmp_path, f"# of the fleet\n{first}\r\n\n  {second.upper()}  \n"))
    assert both is not None
    assert both.key_ids == (SealKey.of(bytes.fromhex(first)).id, SealKey.of(bytes.fromhex(second)).id)


def test_without_a_named_file_nothing_is_sealed(tmp_path: Path) -> None:
    assert found() is None
    assert found(CREDENTIALS_DIRECTORY=str(tmp_path)) is None


def test_a_flag_a_variable_a_setting_and_a_credential_name_it(tmp_path: Path) -> None:
    path = key_file(tmp_path, seal_keys.new_key())
    (tmp_path / "seal-key").symlink_to(path)
    assert all((found(path), found(MNEMOSYNE_SEAL_KEY_FILE=path), found(None, path), found(CREDENTIALS_DIRECTORY=str(tmp_path))))
    assert found(None, "/nowhere", MNEMOSYNE_SEAL_KEY_FILE=f"file:{path}") is not None
    with pytest.raises(ConfigError, match="both say"):
        found(path, MNEMOSYNE_SEAL_KEY_FILE=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"), ("\n# none\n", "is empty"), ("correct horse battery staple", "no seal key"), ("ab" * 31, "no seal key"),
        (f"{'ab' * 32}\n{'AB' * 32}", "twice"), ("\n".join(f"{number:064x}" for number in range(17)), "more than 16"),
    ],
)  # fmt: skip
def test_a_file_without_keys_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as failure:
        found(key_file(tmp_path, text))
    assert "ab" * 31 not in str(failure.value)


def test_a_file_that_is_missing_or_open_to_others_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        found(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="is empty"):
        found(MNEMOSYNE_SEAL_KEY_FILE="")
    path = key_file(tmp_path, seal_keys.new_key())
    Path(path).chmod(0o644)
    with pytest.raises(ConfigError, match="open to others"):
        found(path)
