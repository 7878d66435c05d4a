"""check.py DESCRIBE FILE...: what apidoc writes as OpenAPI 3.1 and Swagger 2 must be valid by the published validator, and
each example body that it makes must fit the schema that the description gives for it, by the published JSON Schema
validator. Prints one line a fault and, last, "openapi PASSED FAILED"."""

import json
import pathlib
import subprocess
import sys

import yaml
from jsonschema import Draft4Validator, Draft202012Validator
from openapi_schema_validator import OAS30Validator
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV31SpecValidator
from referencing import Registry
from referencing.jsonschema import DRAFT4, DRAFT202012

passed = failed = 0


def result(ok, what):
    global passed, failed
    if ok:
        passed += 1
    else:
        failed += 1
        print(f"FAILED {what}")


def run(describe, *arguments):
    return subprocess.run([describe, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def check_written(describe, path):
    for form, validator in (("openapi", OpenAPIV31SpecValidator), ("swagger2", OpenAPIV2SpecValidator)):
        document = json.loads(run(describe, path, form, "json"))
        faults = [error.message[:200] for error in validator(document).iter_errors()]
        result(not faults, f"{path.name} written as {form}: {faults[:3]}")


def operations(document):
    for item in document["paths"].values():
        for method, operation in item.items():
            if isinstance(operation, dict) and method in ("get", "put", "post", "delete", "patch", "head", "options"):
                yield operation


def check_examples(describe, path, text):
    """Every generated body of one self-contained description against its schema."""
    document = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=yaml.CSafeLoader)
    api = json.loads(run(describe, path))
    bodies = {o["id"]: o["body"] for o in api["operations"] if o.get("body", {}).get("generated")}
    swagger = "swagger" in document
    kind = (
        Draft4Validator
        if swagger
        else OAS30Validator
        if document["openapi"].startswith("3.0")
        else Draft202012Validator
    )
    registry = Registry().with_resource(
        "urn:doc", (DRAFT202012 if kind is Draft202012Validator else DRAFT4).create_resource(document)
    )
    faults, count = [], 0
    for operation in operations(document):
        body = bodies.get(operation.get("operationId"))
        if body is None:
            continue
        if swagger:
            schema = next((p["schema"] for p in operation.get("parameters", []) if p.get("in") == "body"), None)
        else:
            request = operation["requestBody"]
            while "$ref" in request:
                request = document["components"]["requestBodies"][request["$ref"].rsplit("/", 1)[1]]
            schema = request["content"][body["media_type"]].get("schema")
        if schema is None:
            continue
        count += 1
        rooted = json.loads(json.dumps(schema).replace('"$ref": "#', '"$ref": "urn:doc#'))
        errors = [e for e in kind(rooted, registry=registry).iter_errors(body["example"]) if not excused(e)]
        if errors:
            faults.append(f"{operation['operationId']}: {errors[0].message[:160]} at {errors[0].json_path}")
    result(count > 0 and not faults, f"{path.name}: {len(faults)} of {count} generated bodies do not fit: {faults[:8]}")
    print(f"{path.name}: {count} generated bodies checked")


def excused(error):
    """Fields that are only read are left out of requests, which JSON Schema alone does not know."""
    if error.validator != "required":
        return False
    missing = error.message.split("'")[1]
    return (error.schema.get("properties", {}).get(missing) or {}).get("readOnly") is True


def main():
    describe, *names = sys.argv[1:]
    for path in map(pathlib.Path, names):
        check_written(describe, path)
        text = path.read_text()
        if path.stat().st_size > 100_000:
            check_examples(describe, path, text)
    print(f"openapi {passed} {failed}")


main()
