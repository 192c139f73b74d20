# mypy: ignore-errors
"""LangGraph agents over AG-UI, as `ag-ui-langgraph` serves them, with a model that follows rules.

It runs in an environment of its own (``requirements.txt``). ``/event/…`` sends interrupts only as events, the default;
``/outcome/…`` also sends them as AG-UI 1.0 does. ``GET /ran`` lists the paths that the tool has deleted.
The first line of the output is the server's port.
"""

from __future__ import annotations

import socket
import sys
from typing import Any

import uvicorn
from ag_ui_langgraph import LangGraphAgent, add_langgraph_fastapi_endpoint
from fastapi import FastAPI
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import MemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

RAN: list[str] = []


class Model(BaseChatModel):
    """Deletes what it is told to delete, in one turn, and then repeats what the tool has said."""

    @property
    def _llm_type(self) -> str:
        return "rules"

    def bind_tools(self, tools: Any, **_: Any) -> Model:
        return self

    def _generate(self, messages: list[AnyMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        results = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        paths = next(str(one.content) for one in messages if isinstance(one, HumanMessage)).split()[1:]
        calls = [{"name": "delete", "args": {"path": path}, "id": f"call-{path}"} for path in paths]
        answer = AIMessage(content=" | ".join(results)) if results else AIMessage(content="", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def delete(path: str) -> str:
    """Deletes a file."""
    RAN.append(path)
    return f"{path} is gone"


def _approving(mode: str) -> Any:
    """An agent that asks before it deletes."""
    middleware = HumanInTheLoopMiddleware(interrupt_on={"delete": True}, interrupt_mode=mode)
    return create_agent(Model(), [delete], middleware=[middleware], checkpointer=MemorySaver())


def _asking(*values: Any) -> Any:
    """A graph that asks all of this at once, and says what it got."""
    graph = StateGraph(MessagesState)
    for place, value in enumerate(values):

        def ask(state: MessagesState, value: Any = value) -> dict[str, Any]:
            return {"messages": [AIMessage(content=f"I got {interrupt(value)!r}")]}

        graph.add_node(f"ask{place}", ask)
        graph.add_edge(START, f"ask{place}")

    def tell(state: MessagesState) -> dict[str, Any]:
        answers = [str(message.content) for message in state["messages"] if isinstance(message, AIMessage)]
        return {"messages": [AIMessage(content=", ".join(answers))]}

    graph.add_node("tell", tell)
    graph.add_edge([f"ask{place}" for place in range(len(values))], "tell")
    graph.add_edge("tell", END)
    return graph.compile(checkpointer=MemorySaver())


SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
GRAPHS = {
    "text": lambda: _asking("Where?"),
    "object": lambda: _asking({"question": "How many?", "responseSchema": SCHEMA}),
    "two": lambda: _asking("Where?", {"message": "When?"}),
    "batched": lambda: _approving("batched"),
    "per_call": lambda: _approving("per_call"),
}


def app() -> FastAPI:
    """The server of all graphs in both forms."""
    served = FastAPI()
    for name, graph in GRAPHS.items():
        for form, is_outcome in (("event", False), ("outcome", True)):
            agent = LangGraphAgent(name=name, graph=graph(), emit_interrupt_outcome=is_outcome, emit_raw_events=True)
            add_langgraph_fastapi_endpoint(served, agent, f"/{form}/{name}")

    @served.get("/ran")
    def ran() -> list[str]:
        return RAN

    return served


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        uvicorn.Server(uvicorn.Config(app(), log_level="warning")).run(sockets=[listening])
