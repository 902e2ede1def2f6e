"""What keeps a source from being released, and what a person still has to do."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tools import install, release

if TYPE_CHECKING:
    from pathlib import Path


class Source:
    """A small source of version 1.0, in git."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.git("init", "--quiet")
        for name, value in {"user.name": "a", "user.email": "a@example", "commit.gpgSign": "false"}.items():
            self.git("config", name, value)
        (place / "kleader").mkdir()
        self.commit("kleader/__init__.py", '__version__ = "1.0"\n')
        self.commit("CHANGELOG.md", "# Changelog\n\n## [1.0] - Unreleased\n\n## [0.9] - 2026-01-01\n")
        self.commit("SECURITY.md", "<!-- TO BE SET -->\n")
        self.commit("pyproject.toml", "[project.urls]\n")

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self._place, check=True, capture_output=True)

    def write(self, file: str, text: str) -> None:
        (self._place / file).write_text(text)

    def commit(self, file: str, text: str) -> None:
        self.write(file, text)
        self.git("add", file)
        self.git("commit", "--quiet", "-m", file)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setattr(install, "SOURCE", tmp_path)
    monkeypatch.setattr(release, "SOURCE", tmp_path)
    return Source(tmp_path)


def test_a_source_whose_versions_agree_can_be_released_before_and_after_its_tag(source: Source) -> None:
    assert release.problems() == []
    source.git("tag", "v1.0")
    assert release.problems() == []


def test_changelog_of_another_version_is_a_problem(source: Source) -> None:
    source.commit("kleader/__init__.py", '__version__ = "1.1"\n')
    assert release.problems() == ["kleader.__version__ is 1.1, and the newest version of CHANGELOG.md is 1.0"]


def test_uncommitted_change_is_a_problem(source: Source) -> None:
    source.write("SECURITY.md", "")
    assert release.problems() == ["the tree is not clean: git status"]


def test_tag_of_another_version_and_a_tag_of_another_commit_are_problems(source: Source) -> None:
    source.git("tag", "v1.1")
    assert release.problems() == ["kleader.__version__ is 1.0, and this commit has the tag v1.1"]
    source.git("tag", "v1.0", "HEAD~1")
    source.git("tag", "-d", "v1.1")
    assert release.problems() == ["v1.0 is the tag of another commit: this one needs a version of its own"]


def test_a_task_that_is_done_is_not_listed(source: Source) -> None:
    before = release.tasks()
    source.commit("CHANGELOG.md", "## [1.0] - 2026-12-01\n")
    source.commit("SECURITY.md", "Contact: security@example\n")
    source.git("tag", "v1.0")
    done = [task for task in before if task not in release.tasks()]
    assert [task.split(":")[0].split(",")[0] for task in done] == ["SECURITY.md", "CHANGELOG.md", "git tag -s v1.0"]
