"""Run in the host's interpreter: `converse.py PLAN ANSWER` drives real agents, one session after the other.

The plan is JSON: `{"url": ..., "sessions": [{"agent": {...}, "steps": [...]}]}`. `agent` holds arguments of the host's agent class
beside the usual ones. A step is `{"turn": TEXT}` or the name of one of the methods of `Session`. The answer lists, per session and
step, what it returned and the hooks that the host called meanwhile. A session that its steps do not end is left as a killed or
forgotten one would be.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import observe

PATIENCE = 60.0  # seconds that the host's writer gets to finish

SEEN: list[observe.Record] = []


class Session:
    """One agent and the conversation it holds."""

    def __init__(self, url: str, database: Any, arguments: dict[str, Any]) -> None:
        """Make the agent, as the host's own doors do; `history` continues the conversation of the stored session."""
        from run_agent import AIAgent

        resumed = arguments.pop("resume", False)
        usual: dict[str, Any] = {
            "base_url": url,
            "api_key": "scripted-0123456789abcdef",
            "provider": "custom",
            "api_mode": "chat_completions",
            "model": "scripted",
            "quiet_mode": True,
            "platform": "cli",
            "enabled_toolsets": ["memory"],
            "session_db": database,
        }
        self.agent = AIAgent(**{**usual, **arguments})
        self.messages: list[Any] | None = None
        if resumed:
            self.messages = database.get_messages_as_conversation(arguments["session_id"])

    def turn(self, text: str) -> str:
        """Take one turn and wait until its writes are done."""
        answer = self.agent.run_conversation(text, conversation_history=self.messages)
        self.messages = answer["messages"]
        self.flush()
        return str(answer["final_response"])

    def flush(self) -> None:
        """Wait for the host's writer."""
        if self.agent._memory_manager is not None:
            self.agent._memory_manager.flush_pending(timeout=PATIENCE)

    def compress(self) -> str:
        """Compress the conversation now, and return the session's id afterwards."""
        self.messages, _ = self.agent._compress_context(self.messages, None, approx_tokens=100_000, force=True)
        self.flush()
        return str(self.agent.session_id)

    def rotate(self) -> str:
        """Compress in the older manner, which gives the session a new id."""
        self.agent.compression_in_place = False
        return self.compress()

    def end(self) -> None:
        """End the session as the command line does."""
        self.agent.shutdown_memory_provider(self.messages or [])
        self.agent.close()

    def run(self, step: str | dict[str, str]) -> dict[str, Any]:
        """Carry out one step of the plan."""
        before = len(SEEN)
        result = self.turn(step["turn"]) if isinstance(step, dict) else getattr(self, step)()
        return {"result": result, "hooks": SEEN[before:]}


def main() -> None:
    """Carry out the plan."""
    from hermes_state import SessionDB

    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    observe.watch(SEEN.append)
    database = SessionDB()
    answers = []
    for wanted in plan["sessions"]:
        before = len(SEEN)
        session = Session(plan["url"], database, wanted.get("agent", {}))
        start = {"result": sorted(session.agent.valid_tool_names), "hooks": SEEN[before:]}
        answers.append([start, *(session.run(step) for step in wanted["steps"])])
    Path(sys.argv[2]).write_text(observe.encode(answers), encoding="utf-8")


if __name__ == "__main__":
    main()
