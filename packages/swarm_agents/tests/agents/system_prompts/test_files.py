"""The operator's prompts: they win key by key, count once edited, and say what is wrong with them."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from swarm.domain.errors import ConfigurationError
from swarm_agents.system_prompts.files import BUILT_IN, PromptFiles, Prompts, load

pytestmark = pytest.mark.req("AGENT-03")

BUILT_IN_PROMPTS = load()

KEYS = ("assistant", "router.decide", "router.result", "router.refuse.intro", "router.refuse.outro",
        "router.refuse.no_tools", "router.refuse.none_allowed", "router.ask", "router.stopped", "summary")  # fmt: skip


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Where an operator's file would be."""
    (tmp_path / "prompts").mkdir()
    return tmp_path / "prompts" / "prompts_config.yaml"


def texts(prompts: Prompts) -> dict[str, str]:
    router = prompts.router
    refuse = router.refuse
    found = (prompts.assistant.text, router.decide.text, router.result, refuse.intro, refuse.outro, refuse.no_tools,
             refuse.none_allowed, router.ask, router.stopped, prompts.summary)  # fmt: skip
    return dict(zip(KEYS, found, strict=True))


def written(key: str, value: object) -> str:
    """A file with one key."""
    *parents, last = key.split(".")
    lines = [f"{'  ' * depth}{name}:" for depth, name in enumerate(parents)]
    return "\n".join([*lines, f"{'  ' * len(parents)}{last}: {value}"]) + "\n"


def test_without_a_file_the_built_in_prompts_hold(own: Path) -> None:
    assert load(own) == load(None) == BUILT_IN_PROMPTS
    assert all(text.strip() for text in texts(BUILT_IN_PROMPTS).values())


@pytest.mark.parametrize("key", KEYS)
def test_each_key_of_the_operator_wins_and_changes_no_other(own: Path, key: str) -> None:
    own.write_text(written(key, "mine"))
    assert texts(load(own)) == {**texts(BUILT_IN_PROMPTS), key: "mine"}


@pytest.mark.parametrize("key", KEYS)
def test_each_text_may_stand_in_a_file_of_its_own(own: Path, key: str) -> None:
    own.write_text(written(key, "{file: mine.md}"))
    (own.parent / "mine.md").write_bytes(b"mine\r\n\n")
    assert texts(load(own)) == {**texts(BUILT_IN_PROMPTS), key: "mine\r\n\n"}


@given(chosen=st.sets(st.sampled_from(KEYS)))
def test_any_keys_win_together(tmp_path_factory: pytest.TempPathFactory, chosen: set[str]) -> None:
    path = tmp_path_factory.mktemp("prompts") / "prompts_config.yaml"
    tree: dict[str, object] = {}
    for key in chosen:
        *parents, last = key.split(".")
        within = tree
        for name in parents:
            within = within.setdefault(name, {})  # type: ignore[assignment]
        within[last] = "mine"
    path.write_text(str(tree))  # which is YAML too
    assert texts(load(path)) == {**texts(BUILT_IN_PROMPTS), **dict.fromkeys(chosen, "mine")}


def test_results_are_worded_by_server_where_there_is_a_text_for_it(own: Path) -> None:
    own.write_text("server_prompts:\n  jira: {file: jira.md}\n  42: numbers\nrouter: {result: all others}\n")
    (own.parent / "jira.md").write_text("Name the issue.")
    prompts = load(own)
    assert [prompts.result_of(server) for server in ("jira", "42", "github", "")] == [
        "Name the issue.", "numbers", "all others", "all others"
    ]  # fmt: skip


def test_a_template_is_named_by_its_file_and_key(own: Path) -> None:
    own.write_text("assistant: {file: a.md.j2}\nrouter: {decide: '{{ 1'}\n")
    (own.parent / "a.md.j2").write_text("{{ 1")
    prompts = load(own)
    assert prompts.assistant.name == str(own.parent / "a.md.j2")
    assert prompts.router.decide.name == f"{own} (router.decide)"


@pytest.mark.parametrize("text", ["", "# nothing\n", "router:\n", "server_prompts:\n", "router:\n  refuse:\n"])
def test_a_file_or_mapping_with_nothing_in_it_changes_nothing(own: Path, text: str) -> None:
    own.write_text(text)
    assert load(own) == BUILT_IN_PROMPTS


WRONG = {
    "no YAML": ("a: [", ("line 1", "cannot be read")),
    "no mapping": ("- a\n", (": a mapping is expected, not a list",)),
    "a text for all": ("hello", (": a mapping is expected, not a str",)),
    "an unknown key": ("asistant: a\n", (", asistant:", "did you mean 'assistant'?")),
    "an unknown key below": ("router: {decided: a}\n", (", router.decided:", "did you mean 'decide'?")),
    "an unknown key further below": (
        "router: {refuse: {zzz: a}}\n",
        (", router.refuse.zzz:", "no such key, only intro, outro, no_tools, none_allowed"),
    ),
    "a list for a text": ("summary: [a]\n", (", summary:", "a text or {file: name} is expected, not a list")),
    "a number for a text": ("router: {ask: 7}\n", (", router.ask:", "not a int")),
    "nothing for a text": ("summary:\n", (", summary:", "not nothing")),
    "an empty text": ("summary: ' '\n", (", summary:", "a non-empty text is expected")),
    "a text for a mapping": ("router: a\n", (", router:", "a mapping is expected")),
    "a text for the servers": ("server_prompts: a\n", (", server_prompts:", "a mapping is expected")),
    "a list for a server": ("server_prompts: {jira: [a]}\n", (", server_prompts.jira:", "a text or")),
    "a file that is not there": ("summary: {file: gone.md}\n", (", summary: there is no file", "gone.md")),
    "a file without a name": ("summary: {file: }\n", (", summary.file:", "name of a file")),
    "a mapping without a file": ("summary: {flie: a}\n", (", summary.flie:", "did you mean 'file'?")),
    "an empty file": ("summary: {file: empty.md}\n", (", summary:", "empty")),
    "a folder": ("summary: {file: folder}\n", ("folder cannot be read: Is a directory",)),
    "a file that is no text": ("summary: {file: image.md}\n", ("image.md cannot be read: it is not UTF-8",)),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_with_file_and_key(own: Path, text: str, expected: tuple[str, ...]) -> None:
    own.write_text(text)
    (own.parent / "empty.md").write_text("\n")
    (own.parent / "folder").mkdir()
    (own.parent / "image.md").write_bytes(b"\xff\xfe\x00")
    for start in (load, PromptFiles):
        with pytest.raises(ConfigurationError) as caught:
            start(own)
        assert str(own.parent) in caught.value.message
        assert all(part in caught.value.message for part in expected), caught.value.message
        assert "\n" not in caught.value.message


@pytest.mark.req("AGENT-08")
def test_an_edit_counts_from_the_next_run(own: Path) -> None:
    own.write_text("assistant: {file: a.md.j2}\n")
    template = own.parent / "a.md.j2"
    template.write_text("one")
    files = PromptFiles(own)
    assert files.current().assistant.text == "one"
    template.write_text("second")
    assert files.current().assistant.text == "second"
    own.write_text("assistant: here\n")
    assert files.current().assistant.text == "here"
    own.unlink()
    assert files.current() == BUILT_IN_PROMPTS
    own.write_text("assistant: again\n")
    assert files.current().assistant.text == "again"


@pytest.mark.req("AGENT-08")
def test_a_file_of_the_same_size_that_takes_its_place_counts(own: Path) -> None:
    own.write_text("assistant: one\n")
    files = PromptFiles(own)
    other = own.with_suffix(".new")
    other.write_text("assistant: two\n")
    os.utime(other, ns=(own.stat().st_atime_ns, own.stat().st_mtime_ns))
    other.rename(own)
    assert files.current().assistant.text == "two"


def test_nothing_is_read_again_while_nothing_changes(own: Path) -> None:
    own.write_text("assistant: one\n")
    files = PromptFiles(own)
    assert files.current() is files.current()


def test_a_broken_edit_leaves_the_last_good_prompts_and_warns_once(own: Path) -> None:
    own.write_text("assistant: good\n")
    files = PromptFiles(own)
    own.write_text("asistant: broken\n")
    with capture_logs() as logs:
        assert [files.current().assistant.text for _ in range(3)] == ["good"] * 3
    assert [(line["log_level"], line["action"]) for line in logs] == [("warning", "prompts")]
    assert "did you mean 'assistant'?" in logs[0]["error"]
    own.write_text("assistant: mended\n")
    with capture_logs() as logs:
        assert files.current().assistant.text == "mended"
    assert [(line["log_level"], line["action"]) for line in logs] == [("info", "prompts")]


def test_a_file_that_was_missing_counts_once_it_is_there(own: Path) -> None:
    own.write_text("assistant: good\n")
    files = PromptFiles(own)
    own.write_text("assistant: {file: late.md}\n")
    with capture_logs():
        assert files.current().assistant.text == "good"
        (own.parent / "late.md").write_text("late")
        assert files.current().assistant.text == "late"


def test_the_built_in_files_use_every_key() -> None:
    assert BUILT_IN.is_file()
    assert {file.name for file in BUILT_IN.parent.iterdir()} == {
        "prompts_config.yaml", "assistant.md.j2", "router.md.j2", "lead.md", "worker.md"
    }  # fmt: skip


def test_runs_on_several_threads_read_edited_prompts_without_harm(own: Path) -> None:
    names = [f"server{number}" for number in range(30)]
    for name in names:
        (own.parent / name).write_text("mine")

    def edit(summary: str) -> None:
        beside = own.with_name("beside")
        servers = "".join(f"  {name}: {{file: {name}}}\n" for name in names)
        beside.write_text(f"server_prompts:\n{servers}summary: {summary}\n")
        beside.replace(own)

    def read_on() -> None:
        while files.current().summary != "the end":
            pass

    edit("the beginning")
    files = PromptFiles(own)
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    try:
        with ThreadPoolExecutor(3) as threads:
            reading = [threads.submit(read_on) for _ in range(3)]
            for number in range(10):
                edit(f"text {number}")
                files.current()
            edit("the end")
            for one in reading:
                one.result(timeout=10)
    finally:
        sys.setswitchinterval(before)
