"""Triggers that write down every move of a run and of a cursor, so that nothing happens unseen."""

import sqlite3

import psycopg

TABLES = (
    "CREATE TABLE audit_runs (run bigint, was text, became text,"
    " fence_was int, fence int, attempt_was int, attempt int, owner text,"
    " ended_was text, ended text)",
    "CREATE TABLE audit_tasks (task bigint, was text, became text, status text)",
)
RUNS = (
    "INSERT INTO audit_runs VALUES (NEW.id, OLD.status, NEW.status,"
    " OLD.fence, NEW.fence, OLD.attempt, NEW.attempt, NEW.owner,"
    " OLD.end_time, NEW.end_time)"
)
TASKS = "INSERT INTO audit_tasks VALUES (NEW.id, OLD.next_moment, NEW.next_moment, NEW.status)"
WATCHED = {"task_runs": RUNS, "tasks": TASKS}


def on_sqlite(file: str) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    for statement in TABLES:
        connection.execute(statement)
    for table, insert in WATCHED.items():
        name = f"CREATE TRIGGER audit_{table} AFTER UPDATE ON {table}"
        connection.execute(f"{name} BEGIN {insert}; END")
    connection.close()


def on_postgresql(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement)
        for table, insert in WATCHED.items():
            connection.execute(
                f"CREATE FUNCTION audit_{table}() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN {insert}; RETURN NULL; END $$"
            )
            connection.execute(
                f"CREATE TRIGGER audit_{table} AFTER UPDATE ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION audit_{table}()"
            )
