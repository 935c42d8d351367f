"""What is true of every memory file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.mirror import SEPARATOR, parse

characters = st.characters(codec="utf-8") | st.sampled_from("§\n\r\t \ufeff\x00漢")
texts = st.text(characters, max_size=60)


@given(texts)
def test_entries_are_trimmed_distinct_and_never_blank(text: str) -> None:
    entries = parse(text)
    assert all(entry and entry == entry.strip() for entry in entries)
    assert len(set(entries)) == len(entries)


@given(texts)
def test_a_file_written_from_its_entries_has_the_same_entries(text: str) -> None:
    entries = parse(text)
    again = parse(SEPARATOR.join(entries))
    # A byte order mark that ends up first is taken for the mark of the file.
    assert again == entries or entries[0].startswith("\ufeff")


@given(texts)
def test_line_ends_of_another_system_change_nothing(text: str) -> None:
    plain = text.replace("\r", "")
    assert parse(plain.replace("\n", "\r\n")) == parse(plain)
