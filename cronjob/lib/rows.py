"""Many guarded writes in one statement: each row only while it is what its writer saw."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db import connection
from django.db.models import Field, JSONField, Model

Row = tuple[Any, ...]


def compare_and_set(
    model: type[Model], rows: Sequence[Row], *, seen: tuple[str, ...], sets: tuple[str, ...]
) -> set[int]:
    """A row is its id, the values it was `seen` with and those it gets; the ids that got them."""
    if not rows:
        return set()
    fields = fields_of(model, ("pk", *seen, *sets))
    # In one order everywhere: writers that wait for each other do not do so in a circle.
    kept = [
        [prepared(field, value) for field, value in zip(fields, row, strict=True)]
        for row in sorted(rows, key=lambda row: row[0])
    ]
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(in_one(model, seen, sets), [list(c) for c in zip(*kept, strict=True)])
            return {row[0] for row in cursor.fetchall()}
        statement, moved = one_by_one(model, seen, sets), set()
        for pk, *values in kept:
            cursor.execute(statement, [*values[len(seen) :], pk, *values[: len(seen)]])
            if cursor.rowcount == 1:
                moved.add(pk)
        return moved


@lru_cache
def fields_of(model: type[Model], names: tuple[str, ...]) -> tuple[Field[Any, Any], ...]:
    options = model._meta
    assert options.pk is not None
    return tuple(options.pk if n == "pk" else options.get_field(n) for n in names)  # type: ignore[misc]


def prepared(field: Field[Any, Any], value: Any) -> Any:
    if isinstance(field, JSONField):  # arrays of JSON do not travel, those of text do
        return None if value is None else json.dumps(value)
    return field.get_db_prep_save(value, connection)


@lru_cache
def in_one(model: type[Model], seen: tuple[str, ...], sets: tuple[str, ...]) -> str:
    fields = fields_of(model, ("pk", *seen, *sets))
    names = [f"v{n}" for n in range(len(fields))]
    types = ["text" if isinstance(f, JSONField) else f.db_type(connection) for f in fields]
    arrays = ", ".join(f"%s::{kind}[]" for kind in types)
    casts = ["::jsonb" if isinstance(f, JSONField) else "" for f in fields]
    told = list(zip(fields, names, casts, strict=True))
    pk, old, new = told[0][0], told[1 : len(seen) + 1], told[len(seen) + 1 :]
    written = ", ".join(f'"{f.column}" = v.{name}{cast}' for f, name, cast in new)
    guards = "".join(f' AND r."{f.column}" IS NOT DISTINCT FROM v.{name}' for f, name, _ in old)
    return (
        f"WITH v AS MATERIALIZED (SELECT * FROM unnest({arrays}) AS t({', '.join(names)})"
        f" ORDER BY {names[0]}) "
        f'UPDATE "{model._meta.db_table}" r SET {written} FROM v '
        f'WHERE r."{pk.column}" = v.{names[0]}{guards} RETURNING r."{pk.column}"'
    )


@lru_cache
def one_by_one(model: type[Model], seen: tuple[str, ...], sets: tuple[str, ...]) -> str:
    written = ", ".join(f'"{f.column}" = %s' for f in fields_of(model, sets))
    pk = fields_of(model, ("pk",))[0]
    guards = "".join(f' AND "{f.column}" IS %s' for f in fields_of(model, seen))
    return f'UPDATE "{model._meta.db_table}" SET {written} WHERE "{pk.column}" = %s{guards}'
