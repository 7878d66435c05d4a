//! A configuration of LiteLLM, run by Weir: who serves which model, under which name and with which key, and who takes over.

use import::{Format, import_text};
use testkit::{Upstream, Weir, responder};

fn completion(model: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        body(model).len(),
        body(model)
    )
}

fn body(model: &str) -> String {
    format!(
        r#"{{"id":"1","object":"chat.completion","created":1,"model":"{model}","choices":[{{"index":0,"message":{{"role":"assistant","content":"hi"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}}}"#
    )
}

struct Rig {
    weir: Weir,
    first: Upstream,
    second: Upstream,
}

fn rig() -> Rig {
    let (first, second) =
        (Upstream::start(responder::raw(completion("one"))), Upstream::start(responder::raw(completion("two"))));
    let file = format!(
        "model_list:
  - model_name: large
    litellm_params: {{model: openai/org/one, api_base: '{}/v1', api_key: os.environ/FIRST_KEY}}
  - model_name: small
    litellm_params: {{model: hosted_vllm/two, api_base: '{}/deep/v2'}}
  - model_name: titan
    litellm_params: {{model: bedrock/titan}}
router_settings: {{num_retries: 1, fallbacks: [{{large: [small]}}], model_group_alias: {{gpt-4: large}}}}
",
        first.url(),
        second.url()
    );
    let imported = import_text(Format::Litellm, "config.yaml", &file).unwrap();
    let yaml = imported.yaml.replace("listen: 0.0.0.0:4000", "listen: 127.0.0.1:0");
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).env("FIRST_KEY", "sk-of-the-first").config(yaml).start();
    Rig { weir, first, second }
}

impl Rig {
    fn get(&self, model: &str) -> u16 {
        let body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"hello"}}]}}"#);
        let fields = [("Content-Type", "application/json"), ("Authorization", "Bearer sk-of-a-client")];
        self.weir.request("POST", "/v1/chat/completions", &fields, body).status()
    }
}

#[test]
fn each_model_goes_to_its_deployment() {
    let rig = rig();
    for name in ["large", "gpt-4"] {
        assert_eq!(rig.get(name), 200, "{name}");
    }
    assert_eq!(rig.get("small"), 200);
    let (first, second) = (rig.first.requests(), rig.second.requests());
    assert_eq!((first.len(), second.len()), (2, 1));
    for request in first {
        assert_eq!(request.head.target(), "/v1/chat/completions");
        assert_eq!(request.head.all("authorization"), ["Bearer sk-of-the-first"]);
        assert!(String::from_utf8_lossy(&request.body).contains(r#""model":"org/one""#));
    }
    assert_eq!(second[0].head.target(), "/deep/v2/chat/completions");
    assert_eq!(second[0].head.all("authorization"), [""; 0], "the client's credential is not the provider's");
    assert!(String::from_utf8_lossy(&second[0].body).contains(r#""model":"two""#));
}

#[test]
fn a_model_that_was_not_imported_is_served_by_nobody() {
    let rig = rig();
    for name in ["titan", "other"] {
        assert_eq!(rig.get(name), 404, "{name}");
    }
    assert_eq!((rig.first.request_count(), rig.second.request_count()), (0, 0));
}

#[test]
fn a_fallback_takes_over() {
    let rig = rig();
    rig.first.set_responder(responder::status(503));
    assert_eq!(rig.get("large"), 200);
    assert_eq!(rig.second.request_count(), 1);
    rig.second.set_responder(responder::status(503));
    rig.first.set_responder(responder::raw(completion("one")));
    assert_eq!(rig.get("small"), 503, "it has no fallback of its own");
}
