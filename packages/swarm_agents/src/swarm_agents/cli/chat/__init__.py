"""``swarm chat``: talks to a built-in agent in a terminal.

The agent runs either in this home's coordinator, over its AG-UI entry point, or in this process, on the same database
(`swarm_agents.cli.chat.opening`). Both use one protocol, `swarm.domain.answers.agents.AgentClient`, and store sessions
under the same ids, so a session can be continued either way.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter


def chat(
    *words: str,
    resume: Annotated[bool, Parameter(name=["--resume", "-r"], negative=(), show_default=False)] = False,
    agent: Annotated[str | None, Parameter(name=["--agent", "-a"])] = None,
    verbose: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> int:
    """Talk to the assistant in the terminal as in Slack, with its memory and its tools.

    If this home's coordinator is running, the assistant runs there; otherwise it runs in this process. Neither Slack
    nor its tokens are needed, but a model is: LLM_MODEL=gpt-5-mini and OPENAI_API_KEY, or LLM_MODEL=qwen3:8b with an
    Ollama on this machine.

    `swarm chat` opens a conversation. Enter sends, Alt-Enter or Ctrl-J begins a new line, Ctrl-C stops an answer,
    Ctrl-D leaves, `/help` explains the rest.

    `swarm chat "What is a lease?"` prints one answer and ends, with exit code 1 if there is none.

    `git diff | swarm chat "What is risky in this?"` asks about the piped text.

    `swarm chat --resume` continues the last session, `swarm chat --resume ID` continues another session, and `swarm
    chat --resume ID "And then?"` asks one question in that session.

    Parameters
    ----------
    words
        The question; without a question, a conversation begins.
    resume
        Continue the last session, or the session with the ID that follows.
    agent
        A built-in agent other than the usual one.
    verbose
        Show the log. Otherwise warnings go to chat.log in SWARM_HOME.
    """
    from swarm.config import load
    from swarm_agents.cli.chat import conversation as run  # with everything that a chat needs
    from swarm_agents.cli.chat.opening import parse_arguments

    return run.main(load(), parse_arguments(words, resume=resume, agent=agent), verbose=verbose)
