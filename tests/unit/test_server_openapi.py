"""The OpenAPI document and the frontend's types say what the models say."""

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError

from jupyter_tpu.errors import Reason
from jupyter_tpu.fleet.api import FleetAPI
from jupyter_tpu.fleet.models import TPU, Host, Operation, Problem
from jupyter_tpu.jaxkit.compile.models import CompileOutcome
from jupyter_tpu.jaxkit.compile.report import CompileReport
from jupyter_tpu.server.openapi import document
from jupyter_tpu.server.routes import ALL_ROUTES, JAX_ROUTES, ROUTES
from jupyter_tpu.server.status import STATUS

SCRIPT = Path(__file__).parents[2] / "scripts" / "typescript_types.py"


def references(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if "$ref" in part else set()
        return own.union(*(references(value) for value in part.values()))
    if isinstance(part, list):
        return set().union(*(references(value) for value in part))
    return set()


def test_the_document_is_complete_and_has_no_dangling_reference():
    made = document("/base/")
    assert made["openapi"] == "3.1.0"
    assert made["servers"] == [{"url": "/base/jupyter-tpu/v1"}]
    for reference in references(made):
        _, _, kind, name = reference.split("/")
        assert name in made["components"][kind]
    for path, methods in made["paths"].items():
        for operation in methods.values():
            named = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
    identifiers = [o["operationId"] for m in made["paths"].values() for o in m.values()]
    assert len(identifiers) == len(set(identifiers)) == len(ALL_ROUTES)


def test_each_schema_is_a_valid_json_schema():
    checker = Draft202012Validator(Draft202012Validator.META_SCHEMA)
    for name, schema in document()["components"]["schemas"].items():
        assert [*checker.iter_errors(schema)] == [], name


def test_what_is_answered_fits_its_schema():
    made = document()
    tpu = TPU(name="a", zone="z", project="p", hosts=[Host(index=0)])
    operation = Operation(id="1", kind="create", tpu="a")
    problem = Problem(message="No.", reason=Reason.QUOTA)
    for answer in (tpu, operation, problem):
        schema = {"$ref": f"#/components/schemas/{type(answer).__name__}", **made}
        Draft202012Validator(schema).validate(msgspec.to_builtins(answer))


def test_every_method_of_the_fleet_has_a_route_with_its_arguments():
    by_call = {route.call: route for route in ROUTES}
    parts = get_type_hints(FleetAPI)
    owners = {"": FleetAPI} | {f"{name}.": part for name, part in parts.items()}
    methods = {
        prefix + name: method
        for prefix, owner in owners.items()
        for name, method in inspect.getmembers(owner, inspect.iscoroutinefunction)
        if prefix + name != "close"
    }
    assert set(by_call) == set(methods)
    for name, method in methods.items():
        route = by_call[name]
        given = re.findall(r"{\w+}", route.path)
        model = route.body or route.query_model
        given += list(route.query) if model is None else ["body or query"]
        expected = list(inspect.signature(method).parameters)[1:]
        assert len(given) == len(expected), (name, given, expected)
        if route.query_model is not None:
            fields = [field.encode_name for field in msgspec.structs.fields(route.query_model)]
            assert list(route.query) == fields, name


def test_every_request_of_jaxkits_worker_has_a_route_with_the_body_it_reads():
    from jupyter_tpu.jaxkit.rest.answers import _REQUESTS

    assert {route.call: route.body for route in JAX_ROUTES} == {
        name: kind for name, (kind, _) in _REQUESTS.items()
    }
    content = document()["paths"]["/jax/prng/sample"]["post"]["responses"]["200"]["content"]
    assert set(content) == {"application/json", "application/x-npy"}


def test_the_document_says_what_compiling_finds_and_that_code_is_run():
    made = document()
    described = made["paths"]["/jax/compile"]["post"]
    assert "code is run" in described["description"]
    schema = described["responses"]["202"]["content"]["application/json"]["schema"]
    report = CompileReport(
        type="v6e-1", topology="v6e:1x1", devices=1, devices_used=1, hosts=1, fits=True, hbm_bytes=9
    )
    outcome = CompileOutcome(type="v6e-1", report=report, tried=[])
    operation = Operation(id="1", kind="compile", result=msgspec.to_builtins(outcome))
    validator = Draft202012Validator({**schema, "components": made["components"]})
    validator.validate(msgspec.to_builtins(operation))
    validator.validate(msgspec.to_builtins(Operation(id="1", kind="compile")))
    operation.result = {"type": 3}
    with pytest.raises(ValidationError):
        validator.validate(msgspec.to_builtins(operation))


def test_every_failed_answer_has_an_error_status_that_no_login_page_follows():
    assert all(400 <= status < 600 and status != 401 for status in STATUS.values())
    assert STATUS[Reason.NO_CREDENTIALS] == 424
    assert STATUS[Reason.KERNELS_RUNNING] == STATUS[Reason.EXISTS] == 409


def test_the_frontends_types_are_those_of_the_models(capsys):
    spec = importlib.util.spec_from_file_location("typescript_types", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main(["--check"]) == 0, "run `make types`"
    types, requests, kinds, _version = script.render().values()
    assert "export interface ITPU {" in types
    assert "this.send<ITunnel>('POST', ['tpus', tpu, 'tunnels'], { body, signal })" in requests
    assert "running: trans.__('Connecting %1', name)" in kinds
