import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_mnemosyne.cli.output import Output, cut_to, json_text, one_line, width_of

ANY_TEXT = st.text(
    st.characters(codec=None, categories=None, exclude_categories=())
    | st.sampled_from("\x00\x1b\x07\ud83c\udcff\u4e2d\u0301\r\n\t")
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(JSON_VALUES)
def test_json_output_is_ascii_on_one_line_and_holds_no_lone_surrogate(value: object) -> None:
    text = json_text(value)
    assert text.isascii()
    assert "\n" not in text
    json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")


@given(ANY_TEXT)
def test_a_line_of_human_output_holds_no_control_character(text: str) -> None:
    shown = one_line(text)
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in shown)


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), min_size=1, max_size=5))
def test_a_table_in_a_pipe_has_one_line_per_row(rows: list[tuple[str, str]]) -> None:
    stream = io.StringIO(newline="")
    Output(stream, json_mode=False).table(("A", "B"), rows)
    text = stream.getvalue()
    assert text.count("\n") == len(rows)
    assert "\t" not in text


def test_a_table_in_a_pipe_has_no_header_and_cuts_nothing() -> None:
    stream = io.StringIO()
    Output(stream, json_mode=False).table(("ID", "TEXT"), [("1", "x" * 500)])
    assert stream.getvalue() == "1  " + "x" * 500 + "\n"


def test_a_table_on_a_terminal_is_aligned_and_marks_what_it_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    Output(stream, json_mode=False).table(("ID", "TEXT"), [("1", "短い"), ("1000", "x" * 500)])
    head, first, second = stream.getvalue().splitlines()
    assert head == "ID    TEXT"
    assert first == "1     短い"
    assert second.endswith("x…")
    assert width_of(second) <= 100


@pytest.mark.parametrize(
    ("variable", "value", "coloured"), [("NO_COLOR", "", True), ("NO_COLOR", "1", False), ("TERM", "dumb", False)]
)
def test_colours_need_a_terminal_that_wants_them(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, *, coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    assert ("\x1b" in Output(Terminal(), json_mode=False).style("x", "bold")) is coloured
    assert "\x1b" not in Output(io.StringIO(), json_mode=False).style("x", "bold")


@given(ANY_TEXT, st.integers(2, 30))
def test_a_cut_text_fits_its_columns(text: str, columns: int) -> None:
    assert width_of(cut_to(text, columns)) <= columns


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@given(text=ANY_TEXT)
def test_every_text_can_be_printed_in_every_encoding(encoding: str, text: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="strict")
    out = Output(stream, json_mode=False)
    out.line(one_line(text))
    out.flush()
    assert raw.getvalue().endswith(b"\n")
