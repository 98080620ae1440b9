"""What a statement looks at, by the plan that a scheduler keeps of it."""

import json
import re
from itertools import count

from django.db import connection

from cronjob.lib import prepared


def listening(asked):
    """For `connection.execute_wrapper`: keeps what is read, and with which values."""

    def told(execute, sql, given, many, context):
        if sql.startswith("SELECT"):
            asked.append((sql, given))
        return execute(sql, given, many, context)

    return told


def explained(sql, given):
    """On PostgreSQL: done once, by a plan that is made for all values."""
    numbers = count(1)
    asked = re.sub("%[s%]", lambda m: f"${next(numbers)}" if m[0] == "%s" else "%", sql)
    values = f"({', '.join(['%s'] * len(given))})" if given else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DEALLOCATE ALL; {''.join(f'SET {said};' for said in prepared.SETTINGS)}")
        cursor.cursor.execute(f"PREPARE asked AS {asked}")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked{values}", given)
        ((found,),) = cursor.fetchall()
        for said in prepared.SETTINGS:
            cursor.execute(f"RESET {said.partition(' ')[0]}")
    return (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]


def nodes(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


def indexes(sql, given):
    """Of which indexes a statement reads; there must be no other way, and nothing to sort."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", given)
            steps = [row[3] for row in cursor.fetchall()]
        assert not [s for s in steps if "TEMP B-TREE" in s or s.startswith("SCAN tasks")], steps
        return {found[1] for found in re.finditer(r"USING (?:COVERING )?INDEX (\w+)", str(steps))}
    looked = [*nodes(explained(sql, given))]
    detours = {"Seq Scan", "Sort", "Incremental Sort"}
    assert not detours & {node["Node Type"] for node in looked}, looked
    return {node["Index Name"] for node in looked if "Index Name" in node}
