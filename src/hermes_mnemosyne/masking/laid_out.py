"""Values that stand beside their name in markup, in a table, or in a pair of fields: `<password>X</password>`, `| password | X |`."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_mnemosyne.masking.found import label, strong
from hermes_mnemosyne.text import lazy

_SPAN = tuple[int, int]
_TAG_BEFORE = lazy(r"<[\w:.-]{0,64}\Z")
_IN_TAG = lazy(r"[\w.-]{0,24}(?:\s[^<>]{0,200})?(?<![/-])>\s{0,80}(?:<!\[CDATA\[)?(?P<value>[^<>\n]{1,512}?)\s{0,80}(?:\]\]>|</)")
_FIELD_BEFORE = lazy(r"(?i)(?:name|key|property)[\"']?\s{0,3}[:=]\s{0,3}[\"']?[\w:.-]{0,64}\Z")
_ATTRIBUTE = lazy(r"[\"'](?:\s[^<>]{0,160}?)?\s(?:value|content|default)\s{0,2}=\s{0,2}[\"'](?P<value>[^\"'\n]{1,512})[\"']")
_ELEMENT = lazy(r"[\"'](?:\s[^<>]{0,160})?>\s{0,80}(?P<value>[^<>\s]{1,512})\s{0,80}</")
_VALUE_FIELD = lazy(
    r"[\"']?[ \t]{0,8}(?:,\s{0,60}|\r?\n[ \t]{1,60})[\"']?(?:value|val|content)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<value>[^\s\"',}]{1,512})"
)
_CELL = lazy(
    r"[^<>|\n]{0,24}(?:\s{0,20}</(?!tr\b)[A-Za-z]\w{0,11}>){1,3}[ \t]{0,3}[:=]?\s{0,40}"
    r"(?:<(?!t[rh]\b)[A-Za-z][^<>]{0,120}>\s{0,40}){1,4}(?P<value>[^<>\s]{1,256})\s{0,40}</"
)
_BOLD = lazy(r"[ \t]?[:=]?(?:</[A-Za-z]\w{0,11}>){1,3}[ \t]{0,3}[:=]?[ \t]{0,8}(?P<value>[^<>\s]{1,256})(?=\s{0,40}(?:<|\Z|\n))")
_ROW_BEFORE = lazy(r"\|[^|\n]{0,40}\Z")
_ROW = lazy(r"[^|\n]{0,24}\|[ \t]{0,80}[*_`]{0,3}(?P<value>[^|\s]{1,256}?)[*_`]{0,3}[ \t]{0,80}(?:\||\n|\Z)")
_RULE = lazy(r"[ \t]*[|+:]?[ \t|+:-]*-{2,}[ \t|+:-]*\Z")
_HEADER = lazy(r"[\w.-]{1,32}(?:([,;\t])[\w.-]{1,32})(?:\1[\w.-]{1,32})*\Z")
_VALUE_NAMES = ("val", "content", "default")
_COLUMN = lazy(r"[\w.-]{0,24}(?:[,;\t]|\r?\n)")
_NO_CELL = lazy(r"\s|\A[-:+]+\Z")
_LONGEST_LINE = 1000
_MOST_COLUMNS = 8


class Layout:
    """Finds such values in one text, name after name. The rows of a table are read for few of its columns, each once."""

    def __init__(self, text: str) -> None:
        """Begin at the top of `text`."""
        self._text = text
        self._has_tags = "</" in text or "/>" in text
        self._has_rows = "|" in text
        self._has_fields = any(word in text for word in _VALUE_NAMES)
        self._header = -1
        self._columns = 0
        self._read = 0

    def values(self, start: int, end: int, *, is_password: bool) -> Iterator[_SPAN]:
        """Yield the values that belong to the name at `start` to `end`; names are given in the order of the text."""
        text = self._text
        if self._has_tags:
            found = _in_markup(text, start, end, is_password=is_password)
            if found is not None:
                yield found
                return
        if self._has_fields and _FIELD_BEFORE().search(text, max(0, start - 80), start):
            match = _VALUE_FIELD().match(text, end)
            if match and _is_value(match["value"], is_password=is_password):
                yield match.span("value")
                return
        if self._has_rows or _COLUMN().match(text, end):
            yield from self._in_table(start, end, is_password=is_password)

    def _in_table(self, start: int, end: int, *, is_password: bool) -> Iterator[_SPAN]:
        """Yield the cell beside a name, or all cells below it where it heads a column."""
        text = self._text
        line = text.rfind("\n", max(0, start - _LONGEST_LINE), start) + 1
        stop = text.find("\n", end, end + _LONGEST_LINE)
        if (not line and start > _LONGEST_LINE) or (stop < 0 and len(text) > end + _LONGEST_LINE):
            return
        head = text[line : stop if stop >= 0 else len(text)]
        below = stop + 1 if stop >= 0 else len(text)
        if "|" in head:
            rule_end = text.find("\n", below, below + 2 * _LONGEST_LINE)
            if rule_end >= 0 and _RULE().match(text[below:rule_end]):
                yield from self._column(line, rule_end + 1, ("|", text.count("|", line, start)), is_password=is_password)
            elif head.lstrip().startswith("|") and _ROW_BEFORE().search(text, max(line, start - 42), start):
                match = _ROW().match(text, end)
                if match and _is_value(match["value"], is_password=is_password):
                    yield match.span("value")
        elif header := _HEADER().match(head.strip()):
            mark = header[1]
            yield from self._column(
                line, below, (mark, text.count(mark, line, start)), is_password=is_password, of=head.count(mark)
            )

    def _column(self, header: int, position: int, where: tuple[str, int], *, is_password: bool, of: int = 0) -> Iterator[_SPAN]:
        """Yield the values of one column in the rows from `position` on, which have `of` marks where that is known."""
        if header < self._read or (header == self._header and self._columns >= _MOST_COLUMNS):
            return
        self._columns = self._columns + 1 if header == self._header else 1
        self._header = header
        text, (mark, index) = self._text, where
        while position < len(text):
            stop = text.find("\n", position)
            row = text[position : stop if stop >= 0 else len(text)]
            cells = row.split(mark)
            if index >= len(cells) or len(cells) < 2 or (of and len(cells) != of + 1):  # noqa: PLR2004 - one is no table
                break
            value = cells[index].strip(" \t\r\"'`*")
            if value and not _NO_CELL().search(value) and _is_value(value, is_password=is_password):
                begin = position + sum(len(cell) + 1 for cell in cells[:index]) + cells[index].index(value)
                yield begin, begin + len(value)
            position = stop + 1 if stop >= 0 else len(text)
        self._read = max(self._read, position)


def _is_value(value: str, *, is_password: bool) -> bool:
    return not label(value) and (is_password or strong(value))


def _in_markup(text: str, start: int, end: int, *, is_password: bool) -> _SPAN | None:
    patterns = [_CELL, _BOLD]
    if _TAG_BEFORE().search(text, max(0, start - 66), start):
        patterns = [_IN_TAG]
    elif _FIELD_BEFORE().search(text, max(0, start - 80), start):
        patterns = [_ATTRIBUTE, _ELEMENT]
    for pattern in patterns:
        match = pattern().match(text, end)
        if match:
            return match.span("value") if _is_value(match["value"].strip(), is_password=is_password) else None
    return None
