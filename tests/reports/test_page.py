"""The page around every report: policy, data blocks, colours, and the library that it carries."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.metadata import version
from typing import TYPE_CHECKING

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsys_deepprof.reports import bundle, palette
from nsys_deepprof.reports.page import counted, json_block, kept_templates, render_page, ticked

if TYPE_CHECKING:
    from pathlib import Path

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_no_text_leaves_a_data_block(value: object) -> None:
    block = str(json_block("data", value))
    inside = block.removeprefix('<script type="application/json" id="data">')
    inside = inside.removesuffix("</script>")
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == value


@given(st.text(alphabet="ab`<>&\"'\u202e"))
def test_sentences_are_escaped_with_their_names_as_code(text: str) -> None:
    shown = str(ticked(text))
    plain = re.sub(r"</?(?:code|bdi)>", "", shown)
    assert not re.search(r"[<>\"'](?!39)", plain.replace("&#39;", "").replace("&#34;", ""))
    assert shown.count("<code>") == text.count("`") - text.count("`") // 2


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (1, "copy", "1 copy"),
        (2, "copy", "2 copies"),
        (1234, "kernel", "1,234 kernels"),
        (0, "graph launch", "0 graph launches"),
    ],
)
def test_counted(count: int, noun: str, words: str) -> None:
    assert counted(count, noun) == words


def test_policy_lets_the_page_s_own_scripts_run_and_nothing_else() -> None:
    from nsys_deepprof.reports.html import SCRIPTS

    page = render_page("base.html.j2", {}, scripts=SCRIPTS)
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    policy = policy.replace("&#39;", "'")
    directives = dict(part.split(" ", 1) for part in policy.split("; "))
    assert directives["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = {
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    }
    assert set(directives["script-src"].split()) == hashes
    assert len(scripts) == len(SCRIPTS)
    assert "unsafe-eval" not in policy
    assert not re.search(r"https?:", policy)


@pytest.mark.parametrize("state", ["absent", "spoiled", "a file"])
def test_templates_render_the_same_wherever_their_code_is_kept(tmp_path: Path, state: str) -> None:
    (tmp_path / "hello.j2").write_text("Hello {{ name }}")

    def rendered() -> str:
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(tmp_path),
            autoescape=True,
            bytecode_cache=kept_templates(tmp_path),
        )
        return environment.get_template("hello.j2").render(name="<you>")

    kept = tmp_path / "__pycache__"
    if state == "a file":
        kept.write_text("in the way")
    else:
        assert rendered() == "Hello &lt;you&gt;"
        (compiled,) = kept.iterdir()
        if state == "spoiled":
            compiled.write_bytes(compiled.read_bytes()[:30])
        else:
            compiled.unlink()
    assert rendered() == rendered() == "Hello &lt;you&gt;"


def test_colours_name_one_thing_each() -> None:
    light = [pair[0] for pair in palette.LIGHT_DARK.values()]
    assert len(set(light)) == len(light)


def test_charts_take_the_page_s_colours_and_their_data_is_left_alone() -> None:
    blue = palette.colour("state-compute")
    spec = {"mark": {"color": blue}, "range": [blue, "red"], "datasets": {"d": [{"name": blue}]}}
    assert palette.with_css_variables(spec) == {
        "mark": {"color": "var(--state-compute)"},
        "range": ["var(--state-compute)", "red"],
        "datasets": {"d": [{"name": blue}]},
    }


def test_the_library_is_what_vl_convert_makes() -> None:
    kept = bundle.TARGET.read_text("utf-8")
    installed = version("vl-convert-python")
    if f"vl-convert {installed}:" not in kept:
        pytest.skip(f"made by another vl-convert than {installed}: run -m {bundle.__name__}")
    assert kept == bundle.bundle()
