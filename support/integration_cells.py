"""The table of what integrations can do: its columns and its rows, and where tests write down what they showed."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).parent.parent / ".cache" / "integrations.json"

CELLS = {
    "ask": "a person is asked, and the validated answer reaches the model or the program",
    "approve": "an action waits for its approval, and a denied one is not executed",
    "edit": "an action is executed with the arguments that the person changed",
    "survives kill": "the process is killed with SIGKILL while it waits; what ran before the pause ran once (in langchain the "
    "process also ends in an approved tool, and just before it: the tool runs once)",
    "resumes elsewhere": "another process goes on with the answer",
    "several at once": "two questions are pending in one run, answered in reverse order, each reaching its own call",
    "asks once": "retried or replayed code asks the same question, and not another one",
    "other endings": "declined and expired reach the model as such, and are never taken for an answer",
    "asks back": "a person asks something about the question, the model replies (in temporal, dbos, restate, airflow, prefect, "
    "a2a, llama-index, smolagents and crewai the program), and the same question goes on; the page of each says about which "
    "questions",
    "sends back": "a person sends a question or an action back with a reason, which reaches the model or the program; nothing "
    "is executed, and what is asked again is asked anew",
}
INTEGRATIONS = (
    "mcp",
    "ag-ui",
    "openai-agents",
    "langgraph",
    "langchain",
    "pydantic-ai",
    "claude-agent-sdk",
    "claude-code",
    "temporal",
    "dbos",
    "restate",
    "airflow",
    "prefect",
    "a2a",
    "google-adk",
    "agent-framework",
    "llama-index",
    "smolagents",
    "strands",
    "agno",
    "crewai",
)
