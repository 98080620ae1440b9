"""Many guarded writes in one statement: each row only while it is what its writer saw.

To PostgreSQL the rows travel as one JSON text, which both sides read and write far faster than
arrays of each column, and what is the same in all of them travels once; SQLite is on this machine
and takes them one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from django.db import connection
from django.db.models import (
    AutoField,
    BooleanField,
    CharField,
    DateTimeField,
    Field,
    FloatField,
    ForeignKey,
    IntegerField,
    JSONField,
    Model,
    TextField,
)

from cronjob.lib import prepared

NOTHING: dict[type, str] = {dict: "{}", list: "[]"}  # most of what is kept as JSON
# Few rows have this and that in common by chance: each time another statement, to be planned anew.
MANY = 16
IF_NEW = " ON CONFLICT DO NOTHING"
Row = tuple[Any, ...]
Names = tuple[str, ...]
Same = tuple[bool, ...]


def compare_and_set(
    model: type[Model], rows: Sequence[Row], *, seen: Names, sets: Names
) -> set[int]:
    """A row is its id, the values it was `seen` with and those it gets; the ids that got them."""
    if not rows:
        return set()
    # In one order everywhere: writers that wait for each other do not do so in a circle.
    rows = sorted(rows, key=lambda row: row[0])
    with prepared.cursor() as cursor:
        if connection.vendor == "postgresql":
            same, given = parted(model, ("pk", *seen, *sets), rows)
            cursor.execute(in_one(model, seen, sets, same), given)
            return {row[0] for row in cursor.fetchall()}
        statement, moved = one_by_one(model, seen, sets), set()
        for pk, *values in kept(model, ("pk", *seen, *sets), rows):
            cursor.execute(statement, [*values[len(seen) :], pk, *values[: len(seen)]])
            if cursor.rowcount == 1:
                moved.add(pk)
        return moved


def insert_new(model: type[Model], rows: Sequence[Row], names: Names) -> None:
    """Rows with these fields, all others by their defaults; what some key forbids is left out."""
    if not rows:
        return
    with prepared.cursor() as cursor:
        if connection.vendor == "postgresql":
            same, given = parted(model, names, rows)
            cursor.execute(all_new(model, names, same), given)
        else:
            cursor.executemany(one_new(model, names), list(kept(model, names, rows)))


def insert_if(
    model: type[Model], rows: Sequence[Row], names: Names, *, condition: str, key: str
) -> dict[Any, int]:
    """As `insert_new`, but only rows for which this holds; the ids of those made, by their `key`.

    In the condition {name} is what a row has of that field. An old SQLite returns no rows.
    """
    if not rows:
        return {}
    with prepared.cursor() as cursor:
        if connection.vendor == "postgresql":
            same, given = parted(model, names, rows)
            cursor.execute(some_new(model, names, same, condition, key), given)
            return dict(cursor.fetchall())
        made, where = {}, names.index(key)
        for row in kept(model, names, rows):
            cursor.execute(one_if(model, names, condition), row)
            if cursor.rowcount == 1:
                made[row[where]] = int(cursor.lastrowid)
        return made


def insert_one(model: type[Model], **given: Any) -> int:
    """A row with these fields, all others by their defaults; its id."""
    names = tuple(given)
    fields = zip(fields_of(model, names), given.values(), strict=True)
    values = [field.get_db_prep_save(value, connection=connection) for field, value in fields]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"{row_of(model, names)} RETURNING id", values)
            return int(cursor.fetchone()[0])
        cursor.execute(row_of(model, names), values)
        return int(cursor.lastrowid)


def set_one(model: type[Model], pk: Any, *, seen: dict[str, Any], sets: dict[str, Any]) -> bool:
    """Change a row, if it still is what somebody saw; nothing of that is null."""
    names, given = (*sets, *seen, "pk"), (*sets.values(), *seen.values(), pk)
    fields = zip(fields_of(model, names), given, strict=True)
    values = [field.get_db_prep_save(value, connection=connection) for field, value in fields]
    with connection.cursor() as cursor:
        cursor.execute(change_of(model, tuple(sets), tuple(seen)), values)
        return bool(cursor.rowcount == 1)


@lru_cache
def change_of(model: type[Model], sets: Names, seen: Names) -> str:
    changes = ", ".join(f'"{field.column}" = %s' for field in fields_of(model, sets))
    guards = " AND ".join(f'"{field.column}" = %s' for field in fields_of(model, (*seen, "pk")))
    return f'UPDATE "{model._meta.db_table}" SET {changes} WHERE {guards}'


@lru_cache
def fields_of(model: type[Model], names: Names) -> tuple[Field[Any, Any], ...]:
    options = model._meta
    assert options.pk is not None
    return tuple(options.pk if n == "pk" else options.get_field(n) for n in names)  # type: ignore[misc]


# --- PostgreSQL -----------------------------------------------------------------------------------


def parted(model: type[Model], names: Names, rows: Sequence[Row]) -> tuple[Same, list[str | None]]:
    """Which columns are the same in all rows, and all values: these, and then the rows."""
    fields, first, columns = fields_of(model, names), rows[0], [*zip(*rows, strict=True)]
    many = len(rows) >= MANY
    same = (False, *(many and shared(fields[n], columns[n]) for n in range(1, len(names))))
    differing = [(n, f"v{n}") for n, it in enumerate(same) if not it]
    each = [{name: row[n] for n, name in differing} for row in rows]
    once = [alone(fields[n], first[n]) for n, it in enumerate(same) if it]
    return same, [*once, json.dumps(each, default=written)]


def shared(field: Field[Any, Any], values: Row) -> bool:
    first, last = values[0], values[-1]
    if first != last or (isinstance(field, JSONField) and first):  # true is 1 here, and not there
        return False
    return values.count(first) == len(values)


def written(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def alone(field: Field[Any, Any], value: Any) -> str | None:
    """As text, which the statement casts to the type of its column."""
    if value is None:
        return None
    if isinstance(field, JSONField):
        return json.dumps(value)
    return str.__str__(value) if isinstance(value, str) else written(value)


def arrived(fields: Sequence[Field[Any, Any]], same: Same) -> str:
    """The rows as `v`, with what is the same in all of them."""
    kinds = [(f"v{n}", str(field.db_type(connection))) for n, field in enumerate(fields)]
    each = ", ".join(f"{v} {kind}" for (v, kind), it in zip(kinds, same, strict=True) if not it)
    # Without its length: by a cast, what is too long would be cut and not be refused.
    bare = [(v, kind.partition("(")[0]) for (v, kind), it in zip(kinds, same, strict=True) if it]
    once = "".join(f", %s::{kind} AS {v}" for v, kind in bare)
    return f"(SELECT j.*{once} FROM json_to_recordset(%s::json) AS j({each})) v"


@lru_cache(maxsize=1024)
def in_one(model: type[Model], seen: Names, sets: Names, same: Same) -> str:
    fields = fields_of(model, ("pk", *seen, *sets))
    told = [(f'"{field.column}"', f"v.v{n}") for n, field in enumerate(fields)]
    pk, old, new = told[0][0], told[1 : len(seen) + 1], told[len(seen) + 1 :]
    changes = ", ".join(f"{column} = {value}" for column, value in new)
    guards = "".join(f" AND r.{column} IS NOT DISTINCT FROM {value}" for column, value in old)
    return (
        f"WITH v AS MATERIALIZED (SELECT * FROM {arrived(fields, same)} ORDER BY v0) "
        f'UPDATE "{model._meta.db_table}" r SET {changes} FROM v '
        f"WHERE r.{pk} = v.v0{guards} RETURNING r.{pk}"
    )


def every_row(model: type[Model], names: Names, same: Same) -> str:
    fields = fields_of(model, names)
    columns, others = both(fields, defaults(model, names))
    values = ", ".join([*(f"v.v{n}" for n in range(len(fields))), *others])
    table = model._meta.db_table
    return f'INSERT INTO "{table}" ({columns}) SELECT {values} FROM {arrived(fields, same)}'


@lru_cache(maxsize=1024)
def all_new(model: type[Model], names: Names, same: Same) -> str:
    return f"{every_row(model, names, same)}{IF_NEW}"


@lru_cache(maxsize=1024)
def some_new(model: type[Model], names: Names, same: Same, condition: str, key: str) -> str:
    every = every_row(model, names, same)
    return f"{every} WHERE {of_row(condition, names)}{IF_NEW} RETURNING {key}, id"


def of_row(condition: str, names: Names) -> str:
    return condition.format(**{name: f"v.v{n}" for n, name in enumerate(names)})


# --- SQLite ---------------------------------------------------------------------------------------


def kept(model: type[Model], names: Names, rows: Sequence[Row]) -> list[list[Any]]:
    keepers = [keeper(field) for field in fields_of(model, names)]
    return [
        [
            keep(value) if keep and value is not None else value
            for keep, value in zip(keepers, row, strict=True)
        ]
        for row in rows
    ]


@lru_cache
def keeper(field: Field[Any, Any]) -> Callable[[Any], Any] | None:
    """What makes of a value what the database keeps; None if that is the same."""
    match field.target_field if isinstance(field, ForeignKey) else field:
        case JSONField():
            return as_json
        case CharField() | TextField():
            return str.__str__  # of a member of an enumeration, its value
        case DateTimeField():
            return as_text
        case AutoField() | IntegerField() | FloatField() | BooleanField():
            return None
    return partial(field.get_db_prep_save, connection=connection)


def as_json(value: Any) -> str:
    nothing = None if value else NOTHING.get(type(value))
    return nothing or json.dumps(value)


def as_text(at: datetime) -> str:
    """As Django keeps a time in SQLite, without its detours: many times for each run."""
    return told(at if at.tzinfo is UTC else at.astimezone(UTC))


@lru_cache(maxsize=256)  # a batch has few times
def told(at: datetime) -> str:
    return at.isoformat(" ").removesuffix("+00:00")


@lru_cache
def one_by_one(model: type[Model], seen: Names, sets: Names) -> str:
    changes = ", ".join(f'"{field.column}" = %s' for field in fields_of(model, sets))
    pk = fields_of(model, ("pk",))[0]
    guards = "".join(f' AND "{field.column}" IS %s' for field in fields_of(model, seen))
    return f'UPDATE "{model._meta.db_table}" SET {changes} WHERE "{pk.column}" = %s{guards}'


@lru_cache
def one_new(model: type[Model], names: Names) -> str:
    return f"{row_of(model, names)}{IF_NEW}"


@lru_cache
def one_if(model: type[Model], names: Names, condition: str) -> str:
    fields = fields_of(model, names)
    columns, others = both(fields, defaults(model, names))
    values = ", ".join([*(f"v.v{n}" for n in range(len(fields))), *others])
    row = ", ".join(f"%s AS v{n}" for n in range(len(fields)))
    return (
        f'INSERT INTO "{model._meta.db_table}" ({columns}) SELECT {values} FROM (SELECT {row}) v '
        f"WHERE {of_row(condition, names)}{IF_NEW}"
    )


@lru_cache
def row_of(model: type[Model], names: Names) -> str:
    fields = fields_of(model, names)
    columns, others = both(fields, defaults(model, names))
    values = ", ".join([*("%s" for _ in fields), *others])
    table = model._meta.db_table
    return f'INSERT INTO "{table}" ({columns}) VALUES ({values})'


# --- defaults -------------------------------------------------------------------------------------


def defaults(model: type[Model], given: Names) -> list[tuple[Field[Any, Any], str]]:
    """The columns not given that may not be null, and what they hold, as SQL."""
    known = set(fields_of(model, given))
    return [
        (field, literal(json.dumps(value) if isinstance(field, JSONField) else value))
        for field in model._meta.concrete_fields
        if not (field in known or field.primary_key or field.generated or field.null)
        for value in [field.get_default()]
    ]


def both(
    fields: Sequence[Field[Any, Any]], others: Sequence[tuple[Field[Any, Any], str]]
) -> tuple[str, list[str]]:
    """All columns, and the values of those that are by default."""
    names = [field.column for field in (*fields, *(field for field, _ in others))]
    return ", ".join(f'"{name}"' for name in names), [value for _, value in others]


def literal(value: Any) -> str:
    """Of a default of ours, never of anything from outside."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return str(int(value)) if isinstance(value, int) else str(value)
    return "'" + str.__str__(value).replace("'", "''").replace("%", "%%") + "'"
