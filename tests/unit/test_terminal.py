"""Text on a terminal is text."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter

import pytest
from rich.table import Column, Table

from swarm.cli import in_one_line
from swarm.cli.main import main
from swarm.cli.terminal import Terminal, write_json_lines
from swarm.domain.errors import Invalid
from swarm_agents.cli.chat.display import PlainText
from swarm_base.characters import without_escapes
from tests.support.naughty import NAME, TEXT, hidden_in

pytestmark = pytest.mark.req("SEC-04")


def test_no_text_is_markup_or_a_command_of_the_terminal() -> None:
    out = io.StringIO()
    console = Terminal(file=out, width=2_000)
    table = Table(NAME, title=TEXT)
    table.add_row(TEXT)
    console.print(TEXT, soft_wrap=True)
    console.print(table)
    assert hidden_in(out.getvalue()) == ""
    assert out.getvalue().count("[bold]x[/bold]") == 3
    assert out.getvalue().count(":smile:") == 3


def test_an_answer_that_is_piped_commands_nothing_either_however_it_is_cut() -> None:
    out = io.StringIO()
    with PlainText(out) as plain:
        for character in TEXT:
            plain.write(character)
    assert hidden_in(out.getvalue()) == ""
    assert "❤\ufe0f\u200d🔥" in out.getvalue()


def _listed(*titles: str) -> Table:
    table = Table("id", "title")
    for title in titles:
        table.add_row("01a20d6e-d7db-7420-a45f-c210fc05c579", title)
    return table


@pytest.mark.req("OPS-01")
def test_a_table_for_another_program_has_one_line_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = io.StringIO()
    Terminal(file=out).print_rows(_listed("word " * 25), "There is no task.")
    (line,) = [line for line in out.getvalue().splitlines() if "01a20d6e" in line]
    assert "word " * 25 in line


@pytest.mark.req("OPS-01")
def test_a_table_in_a_narrow_window_shows_titles_and_complete_ids() -> None:
    table = Table(Column("id", no_wrap=True), "title", Column("status", no_wrap=True), "worker", "from", "progress")
    table.add_row(
        "01a20d6e-d7db-7420-a45f-c210fc05c579", "fail the login test", "in_progress", "counter", "lead", "half (50 %)"
    )
    out = io.StringIO()
    Terminal(file=out, width=80, force_terminal=True, no_color=True, _environ={}).print_rows(
        table, "There is no task.", below={"id": "title"}
    )
    lines = [" ".join(line.split()) for line in without_escapes(out.getvalue()).splitlines()]
    assert lines == [
        "title, id status worker from progress",
        "fail the login test in_progress counter lead half (50 %)",
        "01a20d6e-d7db-7420-a45f-c210fc05c579",
    ]
    wide = io.StringIO()
    Terminal(file=wide, width=200, force_terminal=True).print_rows(table, "There is no task.", below={"id": "title"})
    assert "c210fc05c579 │ fail the login test" in without_escapes(wide.getvalue()), "one line for a row"


@pytest.mark.req("OPS-01")
@pytest.mark.parametrize("columns", [60, 80, 100])
def test_a_table_that_is_still_too_wide_wraps_its_texts_and_loses_none(columns: int) -> None:
    title, worker, progress = "Write a report " * 5, "documentation-writer", "all 12 tests pass (80 %)"
    table = Table(Column("id", no_wrap=True), "title", Column("worker", no_wrap=True), "progress")
    table.add_row("01a20d6e-d7db-7420-a45f-c210fc05c579", title, worker, progress)
    out = io.StringIO()
    Terminal(file=out, width=columns, force_terminal=True).print_rows(table, "None.", below={"id": "title"})
    shown = without_escapes(out.getvalue())
    assert "01a20d6e-d7db-7420-a45f-c210fc05c579" in shown
    assert max(map(len, shown.splitlines())) <= columns
    letters = Counter(title + worker + progress + "01a20d6e-d7db-7420-a45f-c210fc05c579" + "title,idworkerprogress")
    assert Counter("".join(shown.split())) == Counter({c: n for c, n in letters.items() if c != " "})


@pytest.mark.req("OPS-01")
def test_a_table_without_rows_is_a_sentence() -> None:
    out = io.StringIO()
    Terminal(file=out).print_rows(_listed(), "There is no task.")
    assert out.getvalue() == "There is no task.\n"


@pytest.mark.req("OPS-01")
@pytest.mark.parametrize("message", ["listen is 'al'", "listen is 'al'."])
def test_an_error_and_its_hint_are_two_sentences(message: str) -> None:
    assert in_one_line(Invalid(message, hint="The old ones stay.")) == "listen is 'al'. The old ones stay."


@pytest.mark.req("OPS-01")
def test_a_terminal_without_unicode_shows_escapes_in_place_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, "argv", ["swarm", "prompt", "worker"])
    monkeypatch.setattr("swarm.cli.commands.base_prompt", lambda role, own: "Done ✅, “it” \udce9")
    with pytest.raises(SystemExit) as ended:
        main()
    write_json_lines([{"title": "Ünïcode 🔥"}])
    Terminal(width=80).print(_listed("Ünïcode 🔥"))
    sys.stdout.flush()
    assert not ended.value.code
    prompt, line, *table = raw.getvalue().decode("ascii").splitlines()
    assert prompt == r"Done \u2705, \u201cit\u201d \udce9"
    assert json.loads(line) == {"title": "Ünïcode 🔥"}
    assert [one for one in table if "01a20d6e" in one]
