"""Damaged and hostile variants of a good export, each from a number."""

from __future__ import annotations

import random
import sqlite3
import struct
from contextlib import closing
from typing import TYPE_CHECKING

from fixtures.builder import KERNEL, MEMCPY, RUNTIME, Export

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_INTEGERS = (0, 1, -1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63), 10**18)
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM n"
_WORDS = ("", "x", "x" * 5000, "\0", "SELECT", "CREATE VIEW", "12", "1e9", "NULL", "\ud7ff")


def write_mutant(path: Path, seed: int) -> str:
    """Write the variant of number `seed` to `path`; returns what kind of change it is."""
    rng = random.Random(seed)
    if rng.random() < 0.4:
        kind, change = rng.choice(list(_STRUCTURED.items()))
        export = good_export(rng)
        after = change(export, rng)
        export.write(path)
        if after is not None:
            with closing(sqlite3.connect(path)) as connection:
                after(connection)
                connection.commit()
    else:
        kind, damage = rng.choice(list(_BYTES.items()))
        good_export(rng).write(path)
        data = bytearray(path.read_bytes())
        damage(data, rng)
        path.write_bytes(data)
    return kind


def good_export(rng: random.Random) -> Export:
    """A small export with a bit of everything; several pages in most of its tables."""
    export = Export(rng.choice(("2020", "3.0", "3.16", "3.27")))
    export.process(1000, "python").thread(1000, 1000, "main").stream(7).gpu(0).device_map(
        1000, 0, 0
    )
    for step in range(rng.randrange(5, 150)):
        at = 1000 * step + 10
        export.launch((at, at + 5), (at + 20, at + 400), f"kernel_{step % 7}<{'t' * 40}>")
        if step % 3 == 0:
            export.copy(at + 400, at + 450, kind="DtoH", dst="pageable")
            export.nvtx(at, at + 900, text=f"step {step}").os_call(at + 500, at + 600)
    return export.memset(5, 6).migration(7, 8).graph(1, 3).nvtx(1, None, text="open").sync(5, 9)


# ---- bytes


def _flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 3, 30, 300))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _flip_in_headers(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 6)):
        page = rng.randrange(len(data) // 4096)
        start = 4096 * page + (100 if page == 0 else 0)
        data[start + rng.randrange(12)] = rng.randrange(256)


def _file_header(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(16, 100)] = rng.randrange(256)


def _swap_pages(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 4)):
        a, b = (4096 * rng.randrange(1, len(data) // 4096) for _ in range(2))
        data[a : a + 4096], data[b : b + 4096] = data[b : b + 4096], data[a : a + 4096]


def _copy_page(data: bytearray, rng: random.Random) -> None:
    a, b = (4096 * rng.randrange(1, len(data) // 4096) for _ in range(2))
    data[a : a + 4096] = data[b : b + 4096]


def _blank(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    length = min(rng.choice((1, 16, 512, 4096, 20_000)), len(data) - start)
    data[start : start + length] = bytes([rng.choice((0, 255, 65))]) * length


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def _cut_and_lie(data: bytearray, rng: random.Random) -> None:
    pages = rng.randrange(1, len(data) // 4096 + 1)
    del data[4096 * pages :]
    data[28:32] = struct.pack(">I", rng.choice((pages, 0, 2**32 - 1, pages + 100)))


def _grow(data: bytearray, rng: random.Random) -> None:
    data += rng.randbytes(rng.choice((1, 4096, 10_000)))


def _pointers(data: bytearray, rng: random.Random) -> None:
    """Interior pages that lead to other pages: shared children, cycles, the page itself."""
    interior = [p for p in range(1, len(data) // 4096) if data[4096 * p] == 5]
    for page in interior:
        start = 4096 * page
        cells = struct.unpack(">H", data[start + 3 : start + 5])[0]
        for cell in range(min(cells, 2000)):
            place = start + 12 + 2 * cell
            at = start + struct.unpack(">H", data[place : place + 2])[0]
            if at + 4 <= len(data) and rng.random() < 0.5:
                target = rng.choice((page + 1, rng.choice(interior) + 1, 2, 0, 2**31))
                data[at : at + 4] = struct.pack(">I", target)


def _schema_text(data: bytearray, rng: random.Random) -> None:
    """The text of CREATE TABLE, changed in place."""
    old, new = rng.choice(
        (
            (b"CREATE TABLE", b"CREATE TRIGG"),
            (b"INTEGER", b"TEXT   "),
            (b'"start"', b'"start '),
            (b'"end"', b'"eee"'),
            (b"StringIds", b"StringIdz"),
            (b"NOT NULL", b"DEFAULT1"),
            (b"CUPTI_ACTIVITY_KIND_KERNEL", b"CUPTI_ACTIVITY_KIND_MEMSET"),
            (b'"correlationId" INTEGER', b'"correlationId" AS (2)  '),
        )
    )
    places = [i for i in range(len(data)) if data.startswith(old, i)]
    for place in places[:: rng.choice((1, 2, 5))]:
        data[place : place + len(old)] = new[: len(old)].ljust(len(old))


def _lengths(data: bytearray, rng: random.Random) -> None:
    """Payload sizes and serial types of records: large numbers where small ones were."""
    for _ in range(rng.randrange(1, 20)):
        page = rng.randrange(1, len(data) // 4096)
        start = 4096 * page
        cells = struct.unpack(">H", data[start + 3 : start + 5])[0]
        if data[start] != 13 or not 0 < cells < 1000:
            continue
        place = start + 8 + 2 * rng.randrange(cells)
        at = start + struct.unpack(">H", data[place : place + 2])[0] + rng.randrange(30)
        lie = rng.choice((b"\xff" * 8 + b"\x7f", b"\x81\x80\x00", b"\xff\xff\xff\x7f", b"\x00"))
        data[at : at + len(lie)] = lie


_BYTES: dict[str, Callable[[bytearray, random.Random], None]] = {
    "flip": _flip,
    "flip in page headers": _flip_in_headers,
    "file header": _file_header,
    "swap pages": _swap_pages,
    "copy a page": _copy_page,
    "blank": _blank,
    "cut": _cut,
    "cut and lie": _cut_and_lie,
    "grow": _grow,
    "pointers": _pointers,
    "schema text": _schema_text,
    "lengths": _lengths,
}


# ---- structure

After = "Callable[[sqlite3.Connection], object] | None"
_TABLES = (KERNEL, MEMCPY, RUNTIME, "StringIds", "NVTX_EVENTS", "TARGET_INFO_GPU", "PROCESSES",
           "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_STREAM", "ThreadNames")  # fmt: skip


def _drop_column(export: Export, rng: random.Random) -> None:
    table = rng.choice([t for t in _TABLES if t in export.tables])
    export.without(table, rng.choice(export.tables[table]).name)


def _drop_table(export: Export, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 4)):
        export.without(rng.choice(_TABLES))


def _numbers(export: Export, rng: random.Random) -> None:
    for rows in export.rows.values():
        for row in rows:
            if rng.random() < 0.1:
                row[rng.choice(list(row))] = rng.choice(_INTEGERS)


def _types(export: Export, rng: random.Random) -> After:
    def change(connection: sqlite3.Connection) -> None:
        for table in _TABLES:
            info = connection.execute(f"PRAGMA table_info({table})").fetchall()
            if not info:
                continue
            names = [name for _, name, *_ in info]
            listed = ", ".join(f'"{name}"' for name in names)
            connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
            connection.execute(f"CREATE TABLE {table} ({listed})")
            connection.execute(f"INSERT INTO {table} SELECT * FROM old_{table}")
            for _ in range(rng.randrange(4)):
                value = rng.choice(
                    (None, 1.5, 1e300, float("inf"), b"\xff\x00", *_WORDS, *_INTEGERS)
                )
                column = rng.choice(names)
                where = rng.choice(("1", "rowid % 2", "rowid = 3", "rowid > 4"))
                connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE {where}', (value,))

    return change


def _names(export: Export, rng: random.Random) -> None:
    for start in range(20):
        export.kernel(10 * start, 10 * start + 5, name=rng.choice(_WORDS) + rng.choice(_WORDS))
        export.nvtx(10 * start, 10 * start + 5, text=rng.choice(_WORDS))


def _bytes_as_text(export: Export, rng: random.Random) -> After:
    raw = rng.randbytes(rng.choice((1, 3, 100))).hex()

    def change(connection: sqlite3.Connection) -> None:
        connection.execute(f"UPDATE StringIds SET value = CAST(x'{raw}' AS TEXT) WHERE id % 2")
        connection.execute(f"UPDATE PROCESSES SET name = CAST(x'{raw}' AS TEXT)")

    return change if "PROCESSES" in export.tables else None


def _computed(export: Export, rng: random.Random) -> After:
    table = rng.choice([t for t in _TABLES if t in export.tables])
    body = rng.choice(
        (
            "VIEW {0} AS SELECT * FROM moved",
            f"VIEW {{0}} AS {_ENDLESS}",
            "VIRTUAL TABLE {0} USING fts5(a)",
            "TABLE {0} (id, value AS (hex(zeroblob(300000000))))",
            "TABLE {0} (start, end, value)",
        )
    ).format(table)

    def change(connection: sqlite3.Connection) -> None:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if table in tables:
            connection.execute(f"ALTER TABLE {table} RENAME TO moved")
            connection.execute(f"CREATE {body}")

    return change


def _row_numbers(export: Export, rng: random.Random) -> After:
    change = rng.choice(("rowid * 1000000007", "-rowid", "rowid + 9223372036854770000"))
    table = rng.choice((KERNEL, MEMCPY))
    return lambda connection: connection.execute(f"UPDATE {table} SET rowid = {change}")


def _many_tables(export: Export, rng: random.Random) -> After:
    def change(connection: sqlite3.Connection) -> None:
        for number in range(rng.choice((10, 500))):
            connection.execute(f'CREATE TABLE "t{number}" (a, b UNIQUE, CHECK (a > b))')
        connection.execute("CREATE INDEX i ON StringIds (value, id)")
        connection.execute("CREATE TRIGGER r AFTER INSERT ON StringIds BEGIN SELECT 1; END")

    return change


def _schema_rows(export: Export, rng: random.Random) -> After:
    change = rng.choice(
        (
            "rootpage = rootpage + 1",
            "rootpage = 0",
            "rootpage = 1",
            "rootpage = 4294967295",
            "rootpage = 3",
            "sql = 'CREATE TABLE x (a)'",
            "sql = substr(sql, 1, 60)",
            "sql = replace(sql, 'INTEGER', 'BLOB')",
            "type = 'index'",
            "type = 'view'",
            "name = 'StringIds'",
            "sql = NULL",
            "sql = replace(sql, '(', '(extra,')",
        )
    )
    where = rng.choice(("1", "name LIKE 'CUPTI%'", "name = 'StringIds'", "rowid = 2"))

    def alter(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(f"UPDATE sqlite_master SET {change} WHERE {where}")

    return alter


_STRUCTURED: dict[str, Callable[[Export, random.Random], After]] = {
    "drop a column": _drop_column,
    "drop tables": _drop_table,
    "numbers": _numbers,
    "types": _types,
    "names": _names,
    "bytes as text": _bytes_as_text,
    "computed tables": _computed,
    "row numbers": _row_numbers,
    "many tables": _many_tables,
    "schema rows": _schema_rows,
}
