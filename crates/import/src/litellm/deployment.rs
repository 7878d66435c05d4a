//! A deployment: who serves a model, where, and with which key.

use crate::pattern::encode;
use crate::report::{Report, SourceLocation};
use crate::source::Source;
use crate::tree::{self, Fields, Node};

/// How LiteLLM calls a provider, as far as Weir can do it.
struct Known {
    /// Name before the `/` of a model.
    name: &'static str,
    /// API of Weir's provider.
    api: &'static str,
    /// Where it is if the file does not say so; empty: the file has to.
    base: &'static str,
    /// Variable with the key if the file names none; empty: it needs none.
    key: &'static str,
    /// Whether it is called by its interface for OpenAI's clients although LiteLLM uses another one, or changes parameters on the way.
    translated: bool,
}

const fn same(name: &'static str, base: &'static str, key: &'static str) -> Known {
    Known { name, api: "openai", base, key, translated: false }
}

const fn compatible(name: &'static str, base: &'static str, key: &'static str) -> Known {
    Known { name, api: "openai", base, key, translated: true }
}

/// Providers with the API of OpenAI or Anthropic, or an interface for clients of OpenAI's.
const KNOWN: [Known; 25] = [
    same("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    same("text-completion-openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    same("hosted_vllm", "", ""),
    same("vllm", "", ""),
    same("openai_like", "", ""),
    same("custom_openai", "", ""),
    same("litellm_proxy", "", ""),
    same("llamafile", "", ""),
    same("lm_studio", "", ""),
    same("xinference", "", ""),
    Known {
        name: "anthropic",
        api: "anthropic",
        base: "https://api.anthropic.com",
        key: "ANTHROPIC_API_KEY",
        translated: false,
    },
    compatible("azure", "", "AZURE_API_KEY"),
    compatible("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    compatible("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    compatible("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    compatible("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    compatible("together_ai", "https://api.together.xyz/v1", "TOGETHERAI_API_KEY"),
    compatible("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    compatible("fireworks_ai", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    compatible("perplexity", "https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
    compatible("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    compatible("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    compatible("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    compatible("ollama", "http://localhost:11434/v1", ""),
    compatible("ollama_chat", "http://localhost:11434/v1", ""),
];

/// Output tokens that LiteLLM requests of Anthropic where a client's request has no limit.
const ANTHROPIC_OUTPUT: u64 = 4096;

/// Who serves: two deployments with the same are one provider.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Served {
    /// LiteLLM's name.
    pub(super) provider: String,
    pub(super) api: &'static str,
    /// Scheme, host and port.
    pub(super) origin: String,
    /// Path before that of the API's own operations.
    pub(super) base: String,
    /// Environment variable of the key.
    pub(super) key: Option<String>,
}

/// A deployment of a model.
#[derive(Debug)]
pub(super) struct Deployment {
    pub(super) served: Served,
    /// Name of the model there.
    pub(super) model: String,
    pub(super) weight: u64,
    pub(super) max_output: Option<u64>,
    pub(super) rpm: Option<u64>,
    pub(super) tpm: Option<u64>,
    /// In milliseconds.
    pub(super) timeout: Option<u64>,
    pub(super) place: SourceLocation,
}

/// Reads an entry of `model_list`. None if nothing of Weir can serve it; the report has the reason.
pub(super) fn read(source: &Source, report: &mut Report, node: &Node, name: &str) -> Option<Deployment> {
    let place = tree::place(source, node);
    let label = format!("model {name}");
    let params = node.get("litellm_params");
    let Some(params) = params else {
        report.left_out(&place, label, "it has no `litellm_params`");
        return None;
    };
    let fields = Fields::of(params);
    let model = fields.text("model").unwrap_or_default();
    let (provider, plain) = provider(model, fields.text("custom_llm_provider"));
    if name.contains('*') || plain.contains('*') {
        let how = "a candidate is one model of its provider: write a model for each that is used";
        report.left_out(&place, format!("{label}: {model}"), how);
        return None;
    }
    for (what, text) in [("name", name), ("name at the provider", plain)] {
        if !is_model_name(text) {
            report.left_out(&place, format!("{label}: {what}"), format!("`{text}` cannot be the name of a model"));
            return None;
        }
    }
    let Some(known) = KNOWN.iter().find(|known| known.name == provider) else {
        let how = format!("Weir does not speak the API of {provider}");
        report.left_out(&place, format!("{label}: {model}"), how);
        return None;
    };
    let given = fields.text("api_base").or_else(|| fields.text("base_url"));
    let base = given.unwrap_or(known.base);
    let variable = base.strip_prefix("os.environ/").filter(|variable| is_variable(variable));
    let read = match variable {
        // The variable has the whole URL, its path too.
        Some(variable) => Some((format!("${{{variable}}}"), String::new())),
        None => place_of(base),
    };
    let Some((origin, path)) = read else {
        let how = if base.is_empty() { "says nowhere where it is" } else { "is not a URL that Weir connects to" };
        report.left_out(&place, format!("{label}: api_base {base}"), how);
        return None;
    };
    if let Some(variable) = variable {
        let how = format!("${{{variable}}}, which has to be set where Weir starts");
        report.exact(&place, format!("{label}: api_base"), how);
    }
    let base = match known.name {
        // LiteLLM appends the path of the operation to what the file has, with its version.
        "anthropic" => format!("{}/v1", path.strip_suffix("/v1/messages").unwrap_or(path.trim_end_matches("/v1"))),
        "azure" => {
            fields.skip(&["api_version"]);
            "/openai/v1".to_owned()
        }
        // LiteLLM calls Ollama's own interface there.
        "ollama" | "ollama_chat" => format!("{}/v1", path.trim_end_matches("/v1")),
        _ => path.strip_suffix("/chat/completions").unwrap_or(&path).to_owned(),
    };
    if known.translated {
        let how = format!(
            "called by its interface for clients of OpenAI's API, {origin}{base}; LiteLLM translates parameters that are not OpenAI's"
        );
        report.differs(&place, format!("{label}: {model}"), how);
    }
    let key = key(report, &place, name, &fields, known, given.is_none());
    let max_output = fields.whole("max_tokens").or_else(|| node.at(&["model_info", "max_output_tokens"])?.whole());
    let max_output = max_output.filter(|&tokens| tokens > 0 && tokens <= u64::from(u32::MAX));
    let max_output = match (max_output, known.api) {
        (None, "anthropic") => {
            let how = format!("`max_output: {ANTHROPIC_OUTPUT}`, LiteLLM's own for requests without a limit of tokens");
            report.differs(&place, format!("{label}: max_tokens"), how);
            Some(ANTHROPIC_OUTPUT)
        }
        (max_output, _) => max_output,
    };
    let rpm = fields.whole("rpm").filter(|&rpm| rpm > 0);
    let tpm = fields.whole("tpm").filter(|&tpm| tpm > 0);
    // As LiteLLM's `simple-shuffle` draws.
    let weight = fields.whole("weight").or(rpm).or(tpm).unwrap_or(1).clamp(1, u64::from(u32::MAX));
    let deployment = Deployment {
        served: Served { provider: known.name.to_owned(), api: known.api, origin, base, key },
        model: plain.to_owned(),
        weight,
        max_output,
        rpm,
        tpm,
        timeout: fields.get("timeout").and_then(super::seconds),
        place,
    };
    fields.name_rest(source, report, &label);
    Some(deployment)
}

/// LiteLLM's provider of a model, and the model's name there.
fn provider<'m>(model: &'m str, named: Option<&'m str>) -> (&'m str, &'m str) {
    match (model.split_once('/'), named) {
        (Some((first, rest)), Some(named)) if first == named => (named, rest),
        (_, Some(named)) => (named, model),
        (Some((first, rest)), None) => (first, rest),
        (None, None) if model.starts_with("claude") => ("anthropic", model),
        (None, None) if model.starts_with("gemini") => ("vertex_ai", model),
        (None, None) => ("openai", model),
    }
}

/// The environment variable of the key.
fn key(
    report: &mut Report,
    place: &SourceLocation,
    model: &str,
    fields: &Fields<'_>,
    known: &Known,
    is_own_place: bool,
) -> Option<String> {
    let label = format!("model {model}: api_key");
    match fields.text("api_key") {
        Some("" | "none" | "None" | "EMPTY" | "dummy" | "fake-key") => None,
        None if is_own_place || known.name == "azure" => {
            let variable = Some(known.key).filter(|key| !key.is_empty())?.to_owned();
            let how = format!("the file names none: ${{{variable}}}, as LiteLLM takes it");
            report.exact(place, label, how);
            Some(variable)
        }
        None => None,
        Some(key) => match key.strip_prefix("os.environ/").filter(|variable| is_variable(variable)) {
            Some(variable) => {
                let how = format!("${{{variable}}}, which has to be set where Weir starts");
                report.exact(place, label, how);
                Some(variable.to_owned())
            }
            None => {
                // A name of its own: under that of a provider there may be a key that this place must not get.
                let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
                let variable = format!("KEY_{}_{}", place.line, model.chars().map(plain).collect::<String>());
                let how = format!("no key is copied: put it into the environment variable {variable}");
                report.left_out(place, label, how);
                Some(variable)
            }
        },
    }
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether header fields and metrics can have it as the name of a model.
pub(super) fn is_model_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'*'))
}

/// Scheme, host and port of a URL, and its path without a slash at the end.
fn place_of(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    let fine = matches!(scheme, "http" | "https") && !authority.is_empty() && authority.chars().all(is_valid);
    let path = encode(path.trim_end_matches('/')).ok().filter(|_| fine && !path.contains(['?', '#']))?;
    Some((format!("{scheme}://{}", authority.to_ascii_lowercase()), path))
}
