//! Keys that may use some models only: the others do not exist for them, by name, alias, pattern, default or list.

use serde_json::{Value, json};
use testkit::Weir;

use crate::client::{Received, send};
use crate::rig::{Provider, gateway};

const MODELS: &str = "  small: {aliases: [tiny, 'mini-*'], candidates: [{provider: openai, model: sim-tokens3}]}\n  \
                      large: {aliases: [huge, 'maxi-*'], candidates: [{provider: openai, model: sim-tokens4}]}\n  \
                      other: {candidates: [{provider: claude, model: sim-tokens5, max_output: 9}]}\n";

fn create(file: &str, name: &str, models: &[&str]) -> String {
    let models = models.iter().flat_map(|model| ["--model", model]);
    let args: Vec<&str> = ["keys", "create", name, "--file", file].into_iter().chain(models).collect();
    let made = Weir::builder(env!("CARGO_BIN_EXE_weir")).args(args).command();
    made.stdout.trim().to_owned()
}

fn call(weir: &Weir, key: &str, model: Option<&str>) -> Received {
    let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
    if let Some(model) = model {
        body["model"] = model.into();
    }
    let bearer = format!("Bearer {key}");
    let fields = [("Content-Type", "application/json"), ("Authorization", &*bearer)];
    send(weir.addr(), "POST", "/v1/chat/completions", &fields, &body.to_string())
}

fn listed(weir: &Weir, key: &str) -> Vec<String> {
    let bearer = format!("Bearer {key}");
    let list = send(weir.addr(), "GET", "/v1/models", &[("Authorization", &*bearer)], "").json();
    list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn other_models_do_not_exist_for_a_key() {
    let provider = Provider::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let file = file.to_str().unwrap();
    let all = create(file, "all", &[]);
    let small = create(file, "small", &["small"]);
    let both = create(file, "both", &["other", "large"]);
    let top = format!("auth: {{keys: {{api_key: {{in: [bearer], store: {{file: {file}}}}}}}}}\n");
    let weir = gateway(&provider, &top, MODELS, ", auth: keys");

    let names = ["small", "tiny", "mini-1", "large", "huge", "maxi-1", "other"];
    for (key, own) in [(&all, &names[..]), (&small, &names[..3]), (&both, &names[3..])] {
        for name in names {
            let received = call(&weir, key, Some(name));
            let expected = if own.contains(&name) { 200 } else { 404 };
            assert_eq!(received.status, expected, "{own:?} {name} {}", received.text());
            if expected == 404 {
                let nowhere = call(&weir, key, Some("no-such")).json();
                let error = received.json();
                let without = |error: &Value, name: &str| error["error"]["message"].as_str().unwrap().replace(name, "");
                assert_eq!(error["error"]["code"], "model_not_found");
                assert_eq!(without(&error, name), without(&nowhere, "no-such"), "nothing says that it exists");
            }
            let path = format!("/v1/models/{name}");
            let bearer = format!("Bearer {key}");
            assert_eq!(send(weir.addr(), "GET", &path, &[("Authorization", &*bearer)], "").status, expected, "{path}");
        }
        let exact: Vec<&&str> = own.iter().filter(|name| !name.contains('-')).collect();
        assert_eq!(listed(&weir, key).iter().collect::<Vec<_>>(), exact);
    }
    assert_eq!(provider.calls("sim-tokens3"), 6, "three by each of the two keys that may");
}

/// A default is none for a key that may not use it, and the pattern of one model does not hide another model.
#[test]
fn the_default_is_for_keys_that_may_use_it() {
    let provider = Provider::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.yaml");
    let file = file.to_str().unwrap();
    let small = create(file, "small", &["small"]);
    let large = create(file, "large", &["large"]);
    let models = "  small: {aliases: ['gpt-*'], candidates: [{provider: openai, model: sim-tokens3}]}\n  \
                  large: {aliases: ['gpt-4*'], candidates: [{provider: openai, model: sim-tokens4}]}\n";
    let top = format!("auth: {{keys: {{api_key: {{in: [bearer], store: {{file: {file}}}}}}}}}\n");
    let url = format!("http://{}", provider.address());
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{sim: {{targets: [\"{url}\"]}}}}\n{top}\
         providers: {{openai: {{api: openai, upstream: sim}}}}\nmodels:\n{models}\
         routes:\n  - {{match: {{path: /v1/*}}, auth: keys, ai: {{default_model: small}}}}\n"
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    for (key, name, model) in [
        (&small, Some("gpt-4o"), "sim-tokens3"),
        (&large, Some("gpt-4o"), "sim-tokens4"),
        (&small, Some("none-such"), "sim-tokens3"),
        (&small, None, "sim-tokens3"),
    ] {
        let before = provider.calls(model);
        assert_eq!(call(&weir, key, name).status, 200, "{name:?}");
        assert_eq!(provider.calls(model), before + 1, "{name:?} {model}");
    }
    for name in [Some("none-such"), Some("gpt-3"), None] {
        let status = call(&weir, &large, name).status;
        assert_eq!(status, if name.is_some() { 404 } else { 400 }, "{name:?}");
    }
}
