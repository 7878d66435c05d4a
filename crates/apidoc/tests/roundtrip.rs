//! What is written is read back: for any model, as far as the format can say it.

use apidoc::{
    Api, Body, Code, Format, Grant, KeyLocation, Kind, ListFormat, Method, OauthFlow, Operation, Parameter, Security,
    SecurityScheme, Server, Syntax, Type,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Number, Value as Json};
use std::collections::{BTreeMap, HashSet};

/// Text that YAML writers get wrong: what looks like other types, quotes, colons, line breaks, control characters.
fn text() -> impl Strategy<Value = String> {
    const AWKWARD: &[&str] = &[
        "yes",
        "no",
        "on",
        "null",
        "~",
        "true",
        "1",
        "1.0",
        "0x1F",
        "0o7",
        "1e3",
        ".inf",
        "-",
        "- a",
        "? a",
        ": ",
        "a: b",
        "a #b",
        "# a",
        "'",
        "\"",
        "\\",
        "|",
        ">",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a`",
        "{",
        "}",
        "[",
        "]",
        ",",
        "<<",
        "---",
        "...",
        " a ",
        "a\nb",
        "a\n",
        "\ta",
        "\u{7f}",
        "\u{85}",
        "\u{feff}a",
        "ä",
        "日本",
        "🚀",
        "2024-01-01",
        "12:30:45",
        "=",
    ];
    prop_oneof![3 => "[a-zA-Z][a-zA-Z0-9 _.-]{0,12}[a-z]", 2 => proptest::sample::select(AWKWARD).prop_map(str::to_owned), 1 => any::<String>()]
}

/// Names of parameters and fields: anything that is not trimmed away; a question mark at the end means something in RAML.
fn name() -> impl Strategy<Value = String> {
    const ODD: &[&str] = &[
        "X-Request-Id",
        "a.b",
        "yes",
        "1",
        "null",
        "a b",
        "ä",
        "$ref$",
        "value",
        "type",
        "example",
        "default",
        "required",
    ];
    prop_oneof![4 => "[a-z][a-zA-Z0-9_]{0,8}", 1 => proptest::sample::select(ODD).prop_map(str::to_owned)]
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from),
        any::<u64>().prop_map(Number::from),
        (-1e6f64..1e6).prop_map(|f| Number::from_f64(f).unwrap())
    ]
}

/// Values but null, which as an example or default means that there is none.
fn json() -> impl Strategy<Value = Json> {
    let leaf =
        prop_oneof![any::<bool>().prop_map(Json::Bool), number().prop_map(Json::Number), text().prop_map(Json::String)];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let with_null = prop_oneof![4 => inner, 1 => Just(Json::Null)];
        prop_oneof![
            vec(with_null.clone(), 0..4).prop_map(Json::Array),
            btree_map(text(), with_null, 0..4).prop_map(|m| Json::Object(m.into_iter().collect()))
        ]
    })
}

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![any::<bool>().prop_map(Json::Bool), number().prop_map(Json::Number), text().prop_map(Json::String)]
}

/// Where a parameter stands decides what can be said of it.
#[derive(Clone, Copy, PartialEq)]
enum Location {
    Parameter,
    Field,
    FormField,
}

fn parameter(place: Location, path: bool) -> impl Strategy<Value = Parameter> {
    let kinds = match place {
        Location::Parameter => vec![Type::String, Type::Integer, Type::Number, Type::Boolean, Type::Array],
        Location::Field => vec![Type::String, Type::Integer, Type::Number, Type::Boolean, Type::Array, Type::Object],
        Location::FormField => vec![Type::String, Type::Integer, Type::Number, Type::Boolean, Type::Array, Type::File],
    };
    let items = vec![Type::String, Type::Integer, Type::Number, Type::Boolean];
    let lists = vec![ListFormat::Multi, ListFormat::Csv, ListFormat::Ssv, ListFormat::Pipes];
    let basics = (
        proptest::sample::select(kinds),
        any::<bool>(),
        option::of(proptest::sample::select(vec!["int64", "date", "date-time", "uuid", "email"])),
    );
    let values = (option::of(scalar()), option::of(scalar()), vec(scalar(), 0..3));
    let bounds =
        (option::of(number()), option::of(number()), option::of(0u64..9), option::of(0u64..9), option::of(text()));
    let list = (option::of(proptest::sample::select(items)), proptest::sample::select(lists));
    (basics, values, bounds, list).prop_map(
        move |(
            (kind, required, format),
            (example, default, values),
            (min, max, min_length, max_length, pattern),
            (items, list),
        )| {
            if kind == Type::File {
                return Parameter { required, ..Parameter::of(kind) };
            }
            let is_array = kind == Type::Array;
            Parameter {
                kind,
                format: format
                    .map(str::to_owned)
                    .filter(|_| matches!(kind, Type::String | Type::Integer | Type::Number)),
                required: required || path,
                example,
                default,
                values,
                min,
                max,
                min_length,
                max_length,
                pattern,
                items: if place == Location::Field { items } else { items.or(Some(Type::String)) }.filter(|_| is_array),
                list: Some(list).filter(|_| is_array && place != Location::Field),
                multi_segment: false,
            }
        },
    )
}

fn params(place: Location) -> impl Strategy<Value = BTreeMap<String, Parameter>> {
    btree_map(name(), parameter(place, false), 0..4)
}

fn body() -> impl Strategy<Value = Body> {
    let json_object = (params(Location::Field), json(), any::<bool>()).prop_map(|(params, example, generated)| Body {
        media_type: "application/json".to_owned(),
        other_media_types: vec!["application/xml".to_owned()],
        kind: Type::Object,
        params,
        example: Some(example),
        generated,
        required: generated,
    });
    let form = (params(Location::FormField), json(), any::<bool>()).prop_map(|(params, example, required)| Body {
        media_type: "multipart/form-data".to_owned(),
        required,
        kind: Type::Object,
        params,
        example: Some(example),
        ..Body::default()
    });
    let kinds = vec![Type::String, Type::Integer, Type::Array, Type::Boolean, Type::Any];
    let plain = (proptest::sample::select(kinds), json(), any::<bool>()).prop_map(|(kind, example, required)| Body {
        media_type: "application/vnd.x+json; charset=utf-8".to_owned(),
        required,
        kind,
        example: Some(example),
        ..Body::default()
    });
    let file = any::<bool>().prop_map(|required| Body {
        media_type: "image/png".to_owned(),
        required,
        kind: Type::File,
        ..Body::default()
    });
    prop_oneof![4 => json_object, 2 => form, 1 => plain, 1 => file]
}

fn scheme() -> impl Strategy<Value = SecurityScheme> {
    let locations = vec![KeyLocation::Header, KeyLocation::Query, KeyLocation::Cookie];
    let grants = vec![Grant::AuthorizationCode, Grant::ClientCredentials, Grant::Implicit, Grant::Password];
    prop_oneof![
        option::of(text()).prop_map(|bearer_format| SecurityScheme::Http {
            scheme: "bearer".to_owned(),
            bearer_format: bearer_format.filter(|f| !f.is_empty())
        }),
        Just(SecurityScheme::basic()),
        (proptest::sample::select(locations), name())
            .prop_map(|(location, name)| SecurityScheme::ApiKey { location, name }),
        (proptest::sample::select(grants), btree_map("[a-z:]{1,6}", Just(()), 0..3)).prop_map(|(grant, scopes)| {
            let requests = matches!(grant, Grant::AuthorizationCode | Grant::Implicit);
            let flow = OauthFlow {
                grant,
                authorization_url: requests.then(|| "https://a/auth".to_owned()),
                token_url: (grant != Grant::Implicit).then(|| "https://a/token".to_owned()),
                scopes: scopes.into_keys().collect(),
            };
            SecurityScheme::Oauth2 { flows: vec![flow] }
        }),
        Just(SecurityScheme::OpenIdConnect { url: "https://a/.well-known/openid-configuration".to_owned() }),
        Just(SecurityScheme::MutualTls {}),
    ]
}

fn server() -> impl Strategy<Value = Server> {
    let url = prop_oneof![
        Just("http://127.0.0.1:8080"),
        Just("https://example.com/v1"),
        Just("/v2"),
        Just("http://[::1]:9000/a/b")
    ];
    (url, option::of("[a-zA-Z][a-z ]{0,8}[a-z]"))
        .prop_map(|(url, description)| Server { description, ..Server::new(url) })
}

/// Paths with their variables, in the odd places where they are seen.
const PATHS: [(&str, &[&str]); 8] = [
    ("/", &[]),
    ("/users", &[]),
    ("/users/{id}", &["id"]),
    ("/users/{id}/files/{a}.{b}", &["id", "a", "b"]),
    ("/x{a}y-{b}", &["a", "b"]),
    ("/users/", &[]),
    ("/a%20b/~c/d:e", &[]),
    ("/{yes}", &["yes"]),
];

fn operation() -> impl Strategy<Value = Operation> {
    let one = (
        (0..PATHS.len(), proptest::sample::select(&Method::ALL[..7]), vec(server(), 0..2)),
        (
            vec(parameter(Location::Parameter, true), 3),
            params(Location::Parameter),
            params(Location::Parameter),
            params(Location::Parameter),
        ),
        option::of(body()),
    );
    one.prop_map(|((path, method, servers), (of_path, query_params, header_params, cookie_params), body)| {
        let (path, names) = PATHS[path];
        Operation {
            method,
            endpoint_path: path.to_owned(),
            servers,
            path_params: names.iter().map(|n| (*n).to_owned()).zip(of_path).collect(),
            query_params,
            header_params,
            cookie_params,
            body: body.filter(|_| !matches!(method, Method::Get | Method::Head)),
            ..Operation::default()
        }
    })
}

/// Models as reading makes them: unique operations, base paths filled in, security from the schemes that are there.
fn api() -> impl Strategy<Value = Api> {
    let schemes = btree_map("[a-z]{2,6}", scheme(), 0..4);
    (text(), text(), vec(server(), 0..3), schemes, vec((operation(), any::<u8>(), text()), 0..6)).prop_map(
        |(title, version, mut servers, security_schemes, drafts)| {
            let mut urls = HashSet::new();
            servers.retain(|s| urls.insert(s.url.clone()));
            let mut api = Api {
                title: title.trim().to_owned(),
                version: version.trim().to_owned(),
                servers,
                security_schemes,
                operations: Vec::new(),
            };
            let mut seen = HashSet::new();
            let names: Vec<String> = api.security_schemes.keys().cloned().collect();
            for (i, (mut operation, pick, id)) in drafts.into_iter().enumerate() {
                if !seen.insert((operation.method, operation.endpoint_path.clone())) {
                    continue;
                }
                operation.id = format!("{}{i}", id.trim());
                let effective = if operation.servers.is_empty() { &api.servers } else { &operation.servers };
                operation.base_path = effective.first().map(|s| s.url.clone()).unwrap_or_default();
                if let (true, Some(name)) = (pick % 2 == 0, names.get(pick as usize % names.len().max(1))) {
                    let scopes = if pick % 3 == 0 { vec!["read".to_owned()] } else { Vec::new() };
                    operation.security = Security(vec![BTreeMap::from([(name.clone(), scopes)])]);
                    if pick % 5 == 0 {
                        operation.security.0.push(BTreeMap::new());
                    }
                }
                api.operations.push(operation);
            }
            // documents group methods by path, in the order of the paths' first use
            let order: Vec<String> = api.operations.iter().map(|o| o.endpoint_path.clone()).collect();
            api.operations.sort_by_key(|o| order.iter().position(|p| *p == o.endpoint_path));
            api
        },
    )
}

/// Writes and reads; gives what was read and whether the writer had something that it could not say.
fn through(api: &Api, format: Format, syntax: Syntax, kind: Kind) -> (Api, Vec<String>) {
    let written = apidoc::write(api, format, syntax);
    assert!(written.warnings.iter().all(|w| w.code == Code::NotSayable));
    let read =
        apidoc::read_bytes("written", written.text.as_bytes()).unwrap_or_else(|p| panic!("{p}\n{}", written.text));
    assert_eq!(read.kind, kind);
    (read.api, written.warnings.into_iter().map(|w| w.message).collect())
}

/// What is left of a model where a format lacks words.
fn without_cookies(api: &Api) -> Api {
    let mut api = api.clone();
    for operation in &mut api.operations {
        operation.cookie_params.clear();
    }
    api
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_say_everything(api in api()) {
        for syntax in [Syntax::Json, Syntax::Yaml] {
            let (read, notes) = through(&api, Format::Records, syntax, Kind::Records);
            prop_assert_eq!(&read, &api);
            prop_assert!(notes.is_empty());
        }
    }

    #[test]
    fn openapi_says_everything(api in api()) {
        for syntax in [Syntax::Json, Syntax::Yaml] {
            let (read, notes) = through(&api, Format::OpenApi, syntax, Kind::OpenApi);
            prop_assert_eq!(&read, &api);
            prop_assert!(notes.is_empty());
        }
    }

    #[test]
    fn swagger_2_says_everything_but_cookies_and_whole_forms(api in api()) {
        let mut expected = without_cookies(&api);
        for operation in &mut expected.operations {
            if let Some(body) = operation.body.as_mut().filter(|b| b.media_type == "multipart/form-data" && !b.params.is_empty()) {
                body.required = body.params.values().any(|p| p.required);
                body.generated = true;
                let sent = body.params.iter().filter(|(_, p)| p.required || (!body.required && p.kind != Type::File));
                body.example = Some(Json::Object(sent.map(|(name, p)| (name.clone(), p.sample())).collect()));
            }
        }
        for syntax in [Syntax::Json, Syntax::Yaml] {
            let (read, notes) = through(&api, Format::Swagger2, syntax, Kind::Swagger2);
            prop_assert_eq!(&read, &expected);
            if expected != api {
                prop_assert!(!notes.is_empty(), "a loss that is not told");
            }
        }
    }

    #[test]
    fn raml_says_everything_but_cookies_and_path_parameters_by_method(api in api()) {
        let mut expected = without_cookies(&api);
        let mut by_path: BTreeMap<String, BTreeMap<String, Parameter>> = BTreeMap::new();
        for operation in &mut expected.operations {
            let first = by_path.entry(operation.endpoint_path.clone()).or_insert_with(|| operation.path_params.clone());
            operation.path_params.clone_from(first);
        }
        let (read, notes) = through(&api, Format::Raml, Syntax::Yaml, Kind::Raml);
        prop_assert_eq!(&read, &expected);
        if expected != api {
            prop_assert!(!notes.is_empty(), "a loss that is not told");
        }
    }

    #[test]
    fn serde_reads_what_serde_wrote(api in api()) {
        let text = serde_json::to_string(&api).unwrap();
        prop_assert_eq!(serde_json::from_str::<Api>(&text).unwrap(), api);
    }
}
