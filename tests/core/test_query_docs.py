from __future__ import annotations

from nsys_deepprof.queries import SQL_DIRECTORY
from nsys_deepprof.query_docs import markdown


def test_the_page_of_the_queries_is_what_their_headers_say() -> None:
    page = SQL_DIRECTORY / "README.md"
    assert page.read_text(encoding="utf-8") == markdown()
