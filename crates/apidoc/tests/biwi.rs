//! One API in six renderings: what is read must be equal, up to what a format cannot say.

use apidoc::{Api, Kind, SecurityScheme, Server, Type};

fn read(name: &str, kind: Kind) -> Api {
    let path = format!("{}/tests/golden/biwi/{name}", env!("CARGO_MANIFEST_DIR"));
    let read = apidoc::read_file(path).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(read.kind, kind);
    assert_eq!(read.warnings, [], "{name} is written without anything to warn of");
    read.api
}

fn openapi() -> Api {
    read("biwi.openapi.yaml", Kind::OpenApi)
}

/// RAML, Swagger 2 and API Blueprint have one server for all operations.
fn with_one_server(mut api: Api) -> Api {
    for operation in &mut api.operations {
        operation.servers.clear();
        operation.base_path.clone_from(&api.servers[0].url);
    }
    api
}

#[test]
fn the_shorthand_says_all_that_openapi_says() {
    assert_eq!(read("biwi.shorthand.yaml", Kind::Shorthand), openapi());
}

#[test]
fn raml_says_all_but_servers_of_operations() {
    assert_eq!(read("biwi.raml", Kind::Raml), with_one_server(openapi()));
}

#[test]
fn swagger_2_says_all_but_servers_of_operations_and_bearer_tokens() {
    let mut expected = with_one_server(openapi());
    let header = SecurityScheme::ApiKey { location: apidoc::KeyLocation::Header, name: "Authorization".to_owned() };
    expected.security_schemes.insert("bearer".to_owned(), header);
    assert_eq!(read("biwi.swagger.json", Kind::Swagger2), expected);
}

#[test]
fn blueprint_says_all_but_servers_of_operations_bounds_and_integers() {
    let mut expected = with_one_server(openapi());
    for operation in &mut expected.operations {
        let body = operation.body.iter_mut().flat_map(|b| b.params.values_mut());
        for parameter in operation.path_params.values_mut().chain(operation.query_params.values_mut()).chain(body) {
            (parameter.min, parameter.max, parameter.min_length, parameter.max_length) = (None, None, None, None);
            if parameter.kind == Type::Integer {
                parameter.kind = Type::Number;
            }
        }
        if let Some(body) = &mut operation.body {
            // made anew from what is left: a password of any length, a bid of any value
            let sent = body.params.iter().filter(|(_, p)| p.required);
            body.example =
                Some(sent.map(|(name, p)| (name.clone(), p.sample())).collect::<serde_json::Map<_, _>>().into());
        }
    }
    assert_eq!(read("biwi.apib", Kind::Blueprint), expected);
}

#[test]
fn the_model_is_what_the_evaluation_needs() {
    let api = openapi();
    assert_eq!(api.operations.len(), 7);
    let bid = api.operation("placeBid").unwrap();
    assert_eq!(
        (bid.base_path.as_str(), bid.endpoint_path.as_str()),
        ("http://127.0.0.1:14000", "/active/bid/{auctionID}")
    );
    assert_eq!(bid.full_path(), "/active/bid/{auctionID}");
    assert_eq!(bid.origin(), Some("http://127.0.0.1:14000"));
    assert!(bid.security.is_required());
    assert_eq!(api.request_headers(bid), ["authorization", "content-type"]);
    assert_eq!(bid.path_params["auctionID"].sample(), 1);
    assert_eq!(api.servers_of(bid), [Server::new("http://127.0.0.1:14000/")]);
    let create = api.operation("createDescription").unwrap();
    assert_eq!(create.base_path, "http://127.0.0.1:10000");
    assert_eq!(create.body.as_ref().unwrap().example, Some(serde_json::json!({"title": "A violin", "startPrice": 0})));
    let list = api.operation("listActive").unwrap();
    assert!(list.security.is_none());
    assert_eq!(api.request_headers(list), [""; 0]);
}
