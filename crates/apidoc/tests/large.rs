//! Large descriptions: one of 600 operations made here, and public ones where `APIDOC_DOCUMENTS` names a folder of them
//! (scripts/suites fetch them). Counts are asserted, never times.

use apidoc::{Format, Kind, Syntax};
use std::fmt::Write;

/// 600 operations on 120 resources with references, inheritance and parameters of all places.
fn openapi() -> String {
    let mut text = String::from(
        "openapi: 3.1.0\ninfo: {title: Large, version: '1'}\nservers: [{url: https://api.example.com/v1}]\npaths:\n",
    );
    for i in 0..120 {
        let body = format!(
            "      requestBody: {{required: true, content: {{application/json: {{schema: {{$ref: '#/components/schemas/Thing{i}'}}}}}}}}\n"
        );
        let _ = write!(
            text,
            "  /things{i}:\n    get:\n      operationId: list{i}\n      parameters:\n      - {{$ref: '#/components/parameters/Page'}}\n      - {{name: q{i}, in: query, schema: {{type: string}}}}\n    post:\n      operationId: create{i}\n      security: [{{bearer: []}}]\n{body}  /things{i}/{{id}}:\n    parameters:\n    - {{$ref: '#/components/parameters/Id'}}\n    get: {{operationId: get{i}}}\n    put:\n      operationId: put{i}\n{body}    delete: {{operationId: delete{i}, security: [{{bearer: []}}]}}\n",
        );
    }
    text += "components:\n  securitySchemes: {bearer: {type: http, scheme: bearer}}\n  parameters:\n    Page: {name: page, in: query, schema: {type: integer, minimum: 1}}\n    Id: {name: id, in: path, required: true, schema: {type: string, format: uuid}}\n  schemas:\n    Base: {type: object, required: [id], properties: {id: {type: string, format: uuid, readOnly: true}}}\n";
    for i in 0..120 {
        let _ = write!(
            text,
            "    Thing{i}:\n      allOf:\n      - $ref: '#/components/schemas/Base'\n      - type: object\n        required: [name, parts, related]\n        properties:\n          name: {{type: string, minLength: 3}}\n          parts: {{type: array, items: {{$ref: '#/components/schemas/Thing{}'}}}}\n          related: {{oneOf: [{{type: 'null'}}, {{$ref: '#/components/schemas/Base'}}]}}\n",
            (i + 7) % 120
        );
    }
    text
}

#[test]
fn six_hundred_operations_are_read_written_and_read_again() {
    let read = apidoc::read_bytes("large.yaml", openapi().as_bytes()).unwrap();
    assert_eq!(read.api.operations.len(), 600);
    let created = read.api.operation("create0").unwrap().body.as_ref().unwrap();
    assert_eq!(created.example.as_ref().unwrap()["name"], "string");
    for (format, kind) in [
        (Format::Records, Kind::Records),
        (Format::OpenApi, Kind::OpenApi),
        (Format::Swagger2, Kind::Swagger2),
        (Format::Raml, Kind::Raml),
    ] {
        let written = apidoc::write(&read.api, format, Syntax::Yaml);
        assert_eq!(written.warnings.iter().filter(|w| !w.message.contains("security scheme")).count(), 0);
        let again = apidoc::read_bytes("large", written.text.as_bytes()).unwrap();
        assert_eq!(again.kind, kind);
        assert_eq!(again.api, read.api, "{format}");
    }
}

/// Public documents: the file's name, its kind, and how many operations it has.
const PUBLIC: [(&str, Kind, usize); 7] = [
    ("github.json", Kind::OpenApi, 1223),
    ("kubernetes.json", Kind::Swagger2, 1067),
    ("kubernetes-apps.json", Kind::OpenApi, 77),
    ("stripe.json", Kind::OpenApi, 559),
    ("blockfrost.yaml", Kind::OpenApi, 129),
    ("figma.yaml", Kind::OpenApi, 54),
    ("docker.yaml", Kind::Swagger2, 107),
];

#[test]
#[ignore = "needs a folder of public descriptions, which scripts/suites/36-apidoc.sh fetches and names in APIDOC_DOCUMENTS"]
fn public_documents_are_read_and_survive_the_records() {
    let folder = std::env::var_os("APIDOC_DOCUMENTS").expect("APIDOC_DOCUMENTS names the folder");
    for (name, kind, operations) in PUBLIC {
        let path = std::path::Path::new(&folder).join(name);
        let read = apidoc::read_file(&path).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!((read.kind, read.api.operations.len()), (kind, operations), "{name}");
        let written = apidoc::write(&read.api, Format::Records, Syntax::Json);
        let again = apidoc::read_bytes("records", written.text.as_bytes())
            .unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(again.api, read.api, "{name}");
        let written = apidoc::write(&read.api, Format::OpenApi, Syntax::Yaml);
        let again = apidoc::read_bytes("openapi", written.text.as_bytes())
            .unwrap_or_else(|problems| panic!("{name}: {problems}"));
        assert_eq!(again.api.operations.len(), operations, "{name}");
    }
}
