"""Whatever the OpenAPI document allows, and much that it does not: never a 500, and answers as documented."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.helpers import Running, served

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = {"get": 2, "post": 60}
LIMITS = ("--max-width", "16", "--max-depth", "4", "--max-seconds", "5")


@pytest.fixture(scope="module")
def server(queens_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with served(tmp_path_factory.mktemp("schema"), queens_folder, *LIMITS) as running:
        yield running.until_ready()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["valid", "invalid"])
def test_the_api_keeps_to_its_document(server: Running, queens_folder: Path, mode: GenerationMode) -> None:
    document = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    assert {operation.path for operation in operations} >= {"/v1/solve", "/v1/generate", "/v1/models", "/metrics"}
    statuses = set()
    for operation in operations:
        if mode is GenerationMode.NEGATIVE and operation.method == "get":
            continue  # it takes nothing that could be wrong

        @settings(max_examples=EXAMPLES[operation.method], suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: schemathesis.Case) -> None:
            if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
                case.body["model"] = queens_folder.name  # a random name would be refused before all else
            response = case.call()
            statuses.add(response.status_code)
            case.validate_response(response, checks=CHECKS)

        check()
    assert 500 not in statuses
    assert 422 in statuses
