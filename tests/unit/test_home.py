"""The home folder and what is in it are for nobody else's eyes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from swarm.app import home
from swarm.config import Settings
from swarm.domain.errors import ConfigurationError

pytestmark = pytest.mark.req("SEC-06")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_is_private(tmp_path: Path) -> None:
    home.prepare(Settings(home=tmp_path / "home"))
    assert mode(tmp_path / "home") == 0o700


def test_a_home_that_is_open_is_closed_with_its_files_and_a_line_in_the_log(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    (folder / "prompts").mkdir(parents=True)
    files = [folder / name for name in ("swarm.db", "swarm.db-wal", "operator.token", "chat.log")]
    other = folder / "notes.txt"
    elsewhere = tmp_path / "elsewhere.log"
    for path in (*files, other, elsewhere):
        path.write_text("x")
        path.chmod(0o644)
    (folder / "link.log").symlink_to(elsewhere)
    folder.chmod(0o755)
    (folder / "prompts").chmod(0o755)
    with capture_logs() as logs:
        home.prepare(Settings(home=folder))
    assert [mode(path) for path in (folder, folder / "prompts", *files)] == [0o700, 0o700, *[0o600] * 4]
    assert (mode(other), mode(elsewhere)) == (0o644, 0o644), "what is not ours stays as it is"
    assert [line["action"] for line in logs] == ["home_tightened"] * 2
    with capture_logs() as logs:
        home.prepare(Settings(home=folder))
    assert logs == []


def test_a_file_that_vanishes_meanwhile_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "swarm.db-wal").touch()
    stat_of = Path.stat

    def vanishing(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.name == "swarm.db-wal":
            path.unlink(missing_ok=True)
        return stat_of(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "is_symlink", lambda path: False)
    monkeypatch.setattr(Path, "stat", vanishing)
    home.prepare(Settings(home=folder))
    assert list(folder.iterdir()) == []


def test_a_folder_that_everybody_shares_is_no_home(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    with pytest.raises(ConfigurationError, match=r"home \(SWARM_HOME\).*everyone shares"):
        home.prepare(Settings(home=folder))
    assert mode(folder) == 0o1777


def test_a_home_of_somebody_else_that_is_open_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    folder.chmod(0o755)

    def refused(path: Path, mode: int) -> None:
        raise PermissionError(1, os.strerror(1), str(path))

    monkeypatch.setattr(Path, "chmod", refused)
    with pytest.raises(ConfigurationError, match="not permitted") as raised:
        home.prepare(Settings(home=folder))
    assert "your own folder" in str(raised.value.hint)
