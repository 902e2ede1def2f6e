"""The files by which a forge and an editor treat the project name what exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
YAML = [".pre-commit-config.yaml", *(str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.yml"))]
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "docs/decisions.md")


def read(name: str) -> Any:  # noqa: ANN401 - whatever is in it
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("name", YAML)
def test_every_configuration_is_yaml(name: str) -> None:
    assert isinstance(read(name), dict)


def test_dependabot_watches_directories_with_files_of_its_ecosystem() -> None:
    manifests = {"pip": "*.t[ox][mt]*", "gomod": "go.mod", "github-actions": ".github/workflows/*.yml"}
    for update in read(".github/dependabot.yml")["updates"]:
        for directory in update.get("directories") or [update["directory"]]:
            assert list((ROOT / directory.strip("/")).glob(manifests[update["package-ecosystem"]])), directory


def test_the_commit_hook_runs_make_lint() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == ["make lint"]


@pytest.mark.parametrize("name", PAGES)
def test_a_link_of_a_page_leads_to_a_file(name: str) -> None:
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_first_change_of_a_contributor_changes_something() -> None:
    script, name = re.findall(
        r"^sed -i.kept 's/(.*)//' (\S+)", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE
    )[0]
    assert (ROOT / name).read_text("utf-8").count(script) == 1
