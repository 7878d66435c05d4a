//! A description with hundreds of operations becomes every configuration, with nothing lost.

use std::fmt::Write as _;

use gauge::gateway::{self, Options, Placement};

use crate::model;

/// 600 operations: 200 resources at five services, each with a list, an item and a change of it.
fn description() -> String {
    let mut text = String::from("openapi: 3.1.0\ninfo: {title: Many, version: '1'}\npaths:\n");
    for i in 0..200 {
        let server = format!("servers: [{{url: 'http://127.0.0.1:{}/v1'}}]", 7000 + i % 5);
        let _ = write!(
            text,
            "  /resource{i}:\n    {server}\n    get: {{operationId: list{i}, parameters: [{{name: page, in: query}}], responses: {{}}}}
  /resource{i}/{{id}}/parts/{{part}}:\n    {server}\n    parameters: [{{name: id, in: path, required: true}}, {{name: part, in: path, required: true}}]
    get: {{operationId: get{i}, responses: {{}}}}\n    put: {{operationId: put{i}, requestBody: {{content: {{application/json: {{}}}}}}, responses: {{}}}}\n"
        );
    }
    text
}

pub(crate) fn api() -> apidoc::Api {
    apidoc::read_bytes("many.yaml", description().as_bytes()).unwrap_or_else(|problems| panic!("{problems}")).api
}

#[test]
fn six_hundred_operations_become_every_configuration() {
    let started = std::time::Instant::now();
    let model = model(&api(), &Options::default());
    assert_eq!((model.routes.len(), model.paths.len(), model.upstreams.len()), (600, 400, 5));
    for gateway in gateway::all() {
        let mut place = Placement::new("127.0.0.1:8080".parse().expect("an address"), "/srv/gateway");
        place.extra = vec![0; gateway.extra_ports().len()];
        let written = gateway.files(&model, &place).unwrap_or_else(|error| panic!("{error}"));
        let all: String = written.files.iter().map(|file| file.text.as_str()).collect();
        for i in 0..200 {
            // Kong, Tyk, KrakenD and those with expressions end a literal in different ways; none may leave one out.
            let (name, next) = (format!("/resource{i}"), |c: char| c.is_ascii_digit());
            let uses = all.match_indices(&name).filter(|(at, _)| !all[at + name.len()..].starts_with(next)).count();
            assert!(uses >= 2, "{}: {name} is used {uses} times", gateway.name());
        }
    }
    println!("600 operations, {} configurations: {:?}", gateway::all().len(), started.elapsed());
}
