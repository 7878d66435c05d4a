//! The auction service's API in three renderings, of which the OpenAPI document is the truth: they must be equal, up to what a format
//! cannot say.

use apidoc::{Api, KeyLocation, Kind, SecurityScheme};

fn read(name: &str, kind: Kind) -> Api {
    let path = format!("{}/../../services/auction/{name}", env!("CARGO_MANIFEST_DIR"));
    let read = apidoc::read_file(path).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(read.kind, kind);
    assert_eq!(read.warnings, [], "{name} is written without anything to warn of");
    read.api
}

fn openapi() -> Api {
    read("openapi.yaml", Kind::OpenApi)
}

/// RAML and Swagger 2 have one server for all operations.
fn with_one_server(mut api: Api, bearer: SecurityScheme) -> Api {
    for operation in &mut api.operations {
        operation.servers.clear();
        operation.base_path.clone_from(&api.servers[0].url);
    }
    api.security_schemes.insert("bearer".to_owned(), bearer);
    api
}

#[test]
fn raml_says_all_but_servers_of_operations_and_the_form_of_tokens() {
    let bearer = SecurityScheme::Http { scheme: "bearer".to_owned(), bearer_format: None };
    assert_eq!(read("auction.raml", Kind::Raml), with_one_server(openapi(), bearer));
}

#[test]
fn swagger_2_says_all_but_servers_of_operations_and_bearer_tokens() {
    let header = SecurityScheme::ApiKey { location: KeyLocation::Header, name: "Authorization".to_owned() };
    assert_eq!(read("auction.swagger.json", Kind::Swagger2), with_one_server(openapi(), header));
}

#[test]
fn each_operation_has_the_address_of_its_service() {
    let api = openapi();
    let origins: Vec<_> = api.operations.iter().map(|one| (one.id.as_str(), one.origin().unwrap_or(""))).collect();
    let (users, active, descriptions) = ("http://127.0.0.1:12000", "http://127.0.0.1:14000", "http://127.0.0.1:10000");
    assert_eq!(
        origins,
        [
            ("register", users),
            ("login", users),
            ("listActive", active),
            ("getAuction", active),
            ("placeBid", active),
            ("createDescription", descriptions),
            ("getDescription", descriptions),
        ]
    );
    let protected: Vec<_> = api.operations.iter().filter(|one| one.security.is_required()).map(|one| &one.id).collect();
    assert_eq!(protected, ["placeBid", "createDescription"]);
    let description = api.operation("createDescription").unwrap().body.clone().unwrap();
    assert_eq!(description.example, Some(serde_json::json!({"title": "A violin", "startPrice": 100})));
}
