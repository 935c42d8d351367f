"""What the hooks of a host keep of a conversation: one reading of messages for every path that captures turns.

A turn reaches Mnemosyne twice, when it is completed and again within the transcript of its session. Both ways go through
`said` here, so that the two copies of a message have the same text and are stored once.
"""

# ruff: noqa: RUF001 - greetings of other scripts look like Latin letters to it
from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermes_mnemosyne.clock import utc_text
from hermes_mnemosyne.values import Role

RECALL_HEADING = "## Recalled by Mnemosyne"
MIN_CHARS = 40

_ACKNOWLEDGEMENTS = frozenset(
    {
        "ok", "okay", "k", "thank", "thanks", "thank you", "thanks you", "thanks a lot", "thx", "ty", "np", "no problem",
        "yes", "no", "y", "n", "sure", "got it", "done", "cool", "nice", "great", "continue", "go on", "go ahead", "do it",
        "proceed", "next", "please", "exit", "cancel", "stop", "quit", "yeah", "yep", "yup", "nope", "nah", "alright",
        "all right", "right", "perfect", "lgtm", "sounds good", "will do", "understood", "never mind", "nevermind",
    }
)  # fmt: skip
_GREETINGS = frozenset(
    greeting.casefold()
    for greeting in (
        "hi", "hello", "hey", "good morning", "good afternoon", "good evening", "good night", "good day", "morning", "evening", "yo",
        "howdy", "greetings", "bye", "goodbye", "see you", "see you later", "how are you", "how are you doing", "how's it going",
        "nice to meet you", "what's up", "sup", "welcome back",
        "hallo", "servus", "moin", "guten morgen", "guten tag", "guten abend", "gute nacht", "grüß gott", "grüß dich", "grüezi",
        "tschüss", "wie geht's", "wie geht es dir", "danke", "vielen dank", "danke schön", "bitte",
        "hola", "buenos días", "buenos dias", "buenas tardes", "buenas noches", "adiós", "qué tal", "cómo estás", "gracias",
        "muchas gracias", "bonjour", "bonsoir", "salut", "coucou", "au revoir", "ça va", "comment ça va", "merci", "merci beaucoup",
        "ciao", "buongiorno", "buonasera", "grazie", "olá", "ola", "oi", "bom dia", "boa tarde", "boa noite", "obrigado", "obrigada",
        "hoi", "goedemorgen", "goedemiddag", "goedenavond", "dank je", "bedankt", "hej", "hei", "god morgon", "god morgen", "tack",
        "takk", "tak", "moi", "kiitos", "cześć", "dzień dobry", "dobry wieczór", "dziękuję", "ahoj", "dobrý den", "děkuji", "szia",
        "jó napot", "köszönöm", "bună", "mulțumesc", "merhaba", "selam", "günaydın", "teşekkürler", "γεια", "γεια σου", "καλημέρα",
        "ευχαριστώ", "привет", "здравствуйте", "доброе утро", "добрый день", "добрый вечер", "спасибо", "привіт", "дякую",
        "مرحبا", "السلام عليكم", "صباح الخير", "شكرا", "سلام", "שלום", "בוקר טוב", "תודה", "नमस्ते", "धन्यवाद", "namaste",
        "你好", "您好", "你们好", "早上好", "早安", "晚上好", "晚安", "再见", "谢谢", "謝謝", "多谢", "嗨", "こんにちは", "おはよう",
        "おはようございます", "こんばんは", "ありがとう", "ありがとうございます", "안녕", "안녕하세요", "감사합니다", "고마워", "xin chào",
        "cảm ơn", "สวัสดี", "ขอบคุณ", "halo", "selamat pagi", "terima kasih",
    )
)  # fmt: skip
_FILLERS = frozenset(
    {"there", "again", "all", "everyone", "everybody", "friend", "dear", "hermes", "mnemosyne", "assistant", "so", "very", "much"}
)
_LONGEST_PHRASE = 4
_LONGEST_TRIVIAL = 1000
_TRAILING = " \t\r\n.,!?~\u2026\u3002\uff01\uff1f"  # also the ellipsis and the wide full stop and marks
_SLASH_COMMAND = re.compile(r"/[^\W\d_][\w-]*(?:\s|$)")

_FENCE = re.compile(r"<\s*(/?)\s*memory-context\s*>", re.IGNORECASE)
_NOTE_FOLLOWS = re.compile(r"\s*\[System note:")
_OWN_BLOCK = re.compile(rf"^{re.escape(RECALL_HEADING)}[^\n]*(?:\n- [^\n]*)*\n?", re.MULTILINE)
_THOUGHTS = re.compile(r"\A\s*<(think|thinking|reasoning)>.*?</\1>", re.IGNORECASE | re.DOTALL)
_PICTURES = re.compile(r"\A\[\d+ images?\][ \n]?")

_SKILL_PREFIX = "[IMPORTANT: The user has invoked the "
_SKILL_INSTRUCTION = "The user has provided the following instruction alongside the skill invocation: "
_SKILL_RUNTIME_NOTE = "\n\n[Runtime note:"
_BUNDLE_MARK = " skill bundle,"
_BUNDLE_INSTRUCTION = "\nUser instruction: "
_BUNDLE_SKILL = "\n\n[Loaded as part of the "

# Messages that the host itself writes under a person's or the model's role: summaries of a compression, nudges, snapshots.
_HOST_FLAGS = frozenset(("_compressed_summary", "_empty_terminal_sentinel", "_thinking_prefill"))
_HOST_PREFIXES = (
    "[CONTEXT COMPACTION",
    "[CONTEXT SUMMARY]:",
    "[PRIOR CONTEXT — for reference only",
    "[System: ",
    "[Your active task list was preserved across context compression]",
    "[IMPORTANT: Background process ",
    "Continue from the compressed conversation context above.",
)
_TEXT_PARTS = frozenset(("text", "input_text", "output_text"))


@dataclass(frozen=True, slots=True)
class Said:
    """One message worth reading: its role, its own text, and when it was said (UTC text) if the host knows."""

    role: Role
    content: str
    occurred_at: str | None = None


def is_noise(text: str, *, min_chars: int = MIN_CHARS) -> bool:
    """Tell whether a message is too short (trimmed, in characters) or a mere acknowledgement."""
    trimmed = text.strip()
    return len(trimmed) < max(min_chars, 1) or _bare(trimmed) in _ACKNOWLEDGEMENTS


def is_trivial(query: str) -> bool:
    """Tell whether a message asks for nothing: blank, a greeting, an acknowledgement or a slash command."""
    trimmed = query.strip()
    if _SLASH_COMMAND.match(trimmed):
        return True
    # To look at every word of a pasted file takes seconds.
    return len(trimmed) <= _LONGEST_TRIVIAL and _asks_nothing(_words(trimmed))


def _asks_nothing(words: Sequence[str]) -> bool:
    """Tell whether greetings and acknowledgements are all there is, perhaps with a name or a filler between."""
    place, found = 0, not words
    while place < len(words):
        for length in range(min(_LONGEST_PHRASE, len(words) - place), 0, -1):
            phrase = " ".join(words[place : place + length])
            if phrase in _ACKNOWLEDGEMENTS or phrase in _GREETINGS:
                found = True
                break
            if length == 1 and phrase in _FILLERS:
                break
        else:
            return False
        place += length
    return found


def _words(text: str) -> list[str]:
    return [word for part in unicodedata.normalize("NFC", text).casefold().split() if (word := _word(part))]


def _word(part: str) -> str:
    """Return a word without signs and pictures around it."""
    inside = [index for index, character in enumerate(part) if unicodedata.category(character)[0] in "LMN"]
    return part[inside[0] : inside[-1] + 1].replace("\u2019", "'") if inside else ""


def _bare(text: str) -> str:
    return " ".join(text.casefold().strip(_TRAILING).split())


def strip_injected(text: str) -> str:
    """Return the text without recalled memory that a host put into it, fenced or as our own block.

    Storing it again would let a memory confirm itself. A lone fence tag in ordinary prose is left alone.
    """
    if "memory-context" in text.lower():
        text = _without_fenced(text)
    if RECALL_HEADING in text:
        text = _OWN_BLOCK.sub("", text)
    return text


def _without_fenced(text: str) -> str:
    kept, position, opened = [], 0, None
    for tag in _FENCE.finditer(text):
        if not tag[1]:
            opened = tag if opened is None else opened
        elif opened is not None:
            kept.append(text[position : opened.start()])
            position, opened = tag.end(), None
    # A block that was cut off still shows itself by the host's note.
    end = opened.start() if opened is not None and _NOTE_FOLLOWS.match(text, opened.end()) else len(text)
    return "".join(kept) + text[position:end]


def skill_instruction(text: str) -> str:
    """Return a person's own words of a message into which the host expanded a skill; empty when there are none."""
    if not text.startswith(_SKILL_PREFIX):
        return text
    if _BUNDLE_MARK in text:
        # The instruction stands before the skill bodies, so its first mark is the person's.
        _, found, rest = text.partition(_BUNDLE_INSTRUCTION)
        return rest.partition(_BUNDLE_SKILL)[0].strip() if found else ""
    # Here it stands after the body, which may quote the mark itself: the last one is the person's.
    _, found, rest = text.rpartition(_SKILL_INSTRUCTION)
    return rest.partition(_SKILL_RUNTIME_NOTE)[0].strip() if found else ""


def plain_text(content: Any) -> str:
    """Return the text of a message's content: a text, or the text parts of a list, one per line; pictures are left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts: list[str] = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, Mapping) and str(part.get("type") or "").strip().lower() in _TEXT_PARTS:
            text = part.get("text")
            parts.append(text if isinstance(text, str) else "")
    return "\n".join(part for part in parts if part)


def said(role: Role, content: Any, *, reduce: Callable[[str], str] = skill_instruction) -> str:
    """Return what was said in a message, trimmed: without pictures, skill bodies, recalled memory and a model's thoughts.

    `reduce` takes a person's own words out of an expanded skill (a host brings its own).
    """
    text = _PICTURES.sub("", plain_text(content).strip())
    if role == "user":
        text = reduce(text)
    elif role == "assistant":
        text = _THOUGHTS.sub("", text)
    return strip_injected(text).strip()


def transcript_texts(messages: Any, *, reduce: Callable[[str], str] = skill_instruction) -> list[Said]:
    """Return what person and model said in a transcript, in order.

    Tool and system messages are skipped, and so is what the host wrote itself under either role. Only `content` is read: a
    host may keep the message as sent, recalled memory included, beside it.
    """
    found: list[Said] = []
    for message in messages if isinstance(messages, Sequence) else ():
        if not isinstance(message, Mapping) or _by_host(message):
            continue
        role = message.get("role")
        if role not in ("user", "assistant"):
            continue
        text = said(role, message.get("content"), reduce=reduce)
        if text and not text.startswith(_HOST_PREFIXES):
            found.append(Said(role, text, _moment(message.get("timestamp"))))
    return found


def completed_turn(user: str, assistant: str, messages: Any, *, reduce: Callable[[str], str] = skill_instruction) -> list[Said]:
    """Return what was said in one completed turn: the question, what the model said between its tool calls, and the answer.

    `messages` is the transcript so far, in which the turn is looked up; without it only question and answer are known. Where the
    host decorated the answer, the transcript's form counts, since that is what a later reading of the transcript finds.
    """
    question, answer = Said("user", said("user", user, reduce=reduce)), Said("assistant", said("assistant", assistant))
    spoken = transcript_texts(messages, reduce=reduce)
    start = next(
        (i for i in range(len(spoken) - 1, -1, -1) if (spoken[i].role, spoken[i].content) == ("user", question.content)), None
    )
    between: list[Said] = []
    if start is not None:
        question = spoken[start]
        for one in spoken[start + 1 :]:
            if one.role == "user":
                break
            between.append(one)
        if between and (between[-1].content in answer.content or answer.content in between[-1].content):
            answer = between.pop()
    return [one for one in (question, *between, answer) if one.content]


def _by_host(message: Mapping[Any, Any]) -> bool:
    flags = (key for key, value in message.items() if value and isinstance(key, str) and key.startswith("_"))
    return any(key in _HOST_FLAGS or key.endswith("_synthetic") for key in flags)


def _moment(stamp: Any) -> str | None:
    """Return UTC text for a host's time stamp (seconds since 1970, or ISO text); None when it is none."""
    try:
        if isinstance(stamp, str):
            moment = datetime.fromisoformat(stamp)
            return utc_text(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
            return utc_text(datetime.fromtimestamp(stamp, UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None
