"""What schemathesis makes of the OpenAPI description, sent to a running server."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import origin, up

pytestmark = [pytest.mark.faults, pytest.mark.fuzz]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_no_request_however_odd_is_answered_by_a_5xx(tmp_path, postgres, vendor):
    variables = {"DATABASE_URL": postgres} if vendor == "postgresql" else {}
    with up(tmp_path, "--no-demo", **variables) as process:
        key = process.until(r"API key +(cj_\S+)\n")[1]
        command = [
            str(Path(sys.executable).parent / "schemathesis"),
            "run", f"{origin(process)}/api/schema/",
            "--header", f"Authorization: Bearer {key}",
            "--checks", ",".join(CHECKS),
            "--phases", "examples,coverage,fuzzing",
            "--max-examples", "10",
            "--warnings", "off",
            "--no-color",
        ]  # fmt: skip
        said = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
    assert said.returncode == 0, said.stdout[-8000:]
    assert "No issues found" in said.stdout
