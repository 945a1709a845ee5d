"""The code in README and the guides runs as it stands, and what they name exists."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from tickwork import errors
from tickwork.config import SETTINGS
from tickwork.core.job_options import Options
from tickwork.declare.dag_fields import DagFields, StepFields
from tickwork.declare.read_declarations import read_declared

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)):
            found.append((f"{page.relative_to(ROOT)}#{number}", code))
    return found


@pytest.mark.parametrize(("name", "code"), blocks(), ids=[name for name, _ in blocks()])
def test_the_code_of_a_page_runs_as_it_stands(name: str, code: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(code)
    command = [sys.executable, program]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == 0, ran.stderr


def test_the_dags_of_the_guide_can_be_read() -> None:
    files = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/dags-yaml.md").read_text(), re.DOTALL)
    assert files
    for text in files:
        assert read_declared(text, lambda task: None, file="guide").dags


def test_the_guide_names_every_field_of_a_step() -> None:
    guide = (ROOT / "docs/dags-yaml.md").read_text()
    for name in (*StepFields.__struct_fields__, *DagFields.__struct_fields__):
        assert f"`{name}`" in guide, name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_setting_is_described() -> None:
    page = (ROOT / "docs/settings.md").read_text()
    for one in SETTINGS:
        default = "none" if one.default is None else f"`{one.default}`"
        assert f"| `{one.name}` | `{one.variable}` | {one.kind} | {default} | {one.description} |" in page, one.name


def test_every_option_is_described() -> None:
    guide = (ROOT / "docs/guides/jobs.md").read_text()
    for field in fields(Options):
        assert f"`{field.name}`" in guide, field.name


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, BaseException):
            assert name in drawn, name
