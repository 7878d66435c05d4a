//! AI traffic: names become indices, keys are read.

use std::path::Path;
use std::sync::Arc;

use llm::api::Family;
use llm::request::Prefill;

use super::authorizer::ServiceAddress;
use super::headers::may_edit;
use super::{Resolver, time};
use crate::raw;
use crate::raw::shape::{OrNone, Spanned};
use crate::raw::target::check_path;
use crate::raw::text::{FieldName, FieldValue};
use crate::{
    Ai, Alias, AuthorizerForm, Candidate, Guard, Model, ModelId, Provider, ProviderId, ProviderKey, Recover, RouteAi,
    UpstreamId,
};

/// Fields by which clients and providers show who they are; a provider's own are its `keys`.
const CREDENTIALS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

impl Resolver<'_> {
    pub(super) fn ai(&self) -> Ai {
        Ai { held_bytes: self.file.ai.held.0, reserve_output: u64::from(self.file.ai.reserve_output.get()) }
    }

    pub(super) fn providers(&mut self) -> Vec<Provider> {
        let file = self.file;
        file.providers.iter().map(|(name, raw)| self.provider(name, raw)).collect()
    }

    fn provider(&mut self, name: &Spanned<String>, raw: &raw::Provider) -> Provider {
        self.check_name(name);
        if let Some(base) = &raw.base {
            self.check(base.origin, check_path(base));
        }
        let family = match *raw.api {
            raw::ProviderApi::Openai => Family::OpenAi,
            raw::ProviderApi::Anthropic => Family::Anthropic,
            raw::ProviderApi::Gemini => Family::Gemini,
        };
        let base = match (&raw.base, family) {
            (Some(base), _) => base.strip_suffix('/').unwrap_or(base),
            (None, Family::Gemini) => "/v1beta",
            (None, _) => "/v1",
        };
        let keys: Vec<ProviderKey> = raw.keys.iter().filter_map(|key| self.provider_key(key)).collect();
        let mut headers: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (field, value) in raw.headers.iter() {
            self.check(field.origin, field.parse::<FieldName>().and_then(|field| may_edit(&field.0)));
            let lower = field.to_ascii_lowercase();
            if CREDENTIALS.contains(&lower.as_str()) && !keys.is_empty() {
                let message = format!("`keys` writes `{}` too; remove one of the two", field.value);
                self.problem(field.origin, message);
            }
            if headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(field)) {
                self.problem(field.origin, format!("`{}` occurs twice; names ignore case", field.value));
            }
            headers.push((field.as_str().into(), value.0.as_str().into()));
        }
        Provider {
            name: name.as_str().into(),
            family,
            upstream: self.upstream_id(&raw.upstream),
            keys,
            base: base.into(),
            headers,
        }
    }

    fn provider_key(&mut self, raw: &Spanned<raw::ProviderKey>) -> Option<ProviderKey> {
        let secret = match (&raw.key, &raw.file) {
            (Some(key), None) => key.clone(),
            (None, Some(path)) => match (self.read_file)(Path::new(path)) {
                Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
                Err(error) => {
                    self.problem(raw.origin, format!("cannot read {path}: {error}; it should hold a key"));
                    return None;
                }
            },
            _ => {
                self.problem(raw.origin, "a key needs either `key` or `file`");
                return None;
            }
        };
        if secret.is_empty() {
            let what = raw.file.as_deref().map_or("the key".to_owned(), |path| format!("the key in {path}"));
            self.problem(raw.origin, format!("{what} is empty; leave `keys` out for a provider that needs none"));
            return None;
        }
        // The message of a field value never shows it.
        self.check(raw.origin, secret.parse::<FieldValue>().map(drop));
        let from = secret.char_indices().rev().nth(3).map_or(0, |(at, _)| at);
        // A short key would be shown whole.
        let shown = if secret.len() >= 16 { format!("...{}", &secret[from..]) } else { "...".to_owned() };
        Some(ProviderKey { secret: secret.into(), shown: shown.into(), weight: raw.weight.get() })
    }

    pub(super) fn models(&mut self) -> Vec<Model> {
        let file = self.file;
        let models: Vec<Model> = file.models.iter().map(|(name, raw)| self.model(name, raw)).collect();
        let mut known: Vec<&str> = file.models.iter().map(|(name, _)| name.as_str()).collect();
        let mut twice = Vec::new();
        for alias in file.models.iter().flat_map(|(_, raw)| &raw.aliases) {
            if known.contains(&alias.as_str()) {
                twice.push(alias);
            }
            known.push(alias);
        }
        for alias in twice {
            self.problem(alias.origin, format!("`{}` is the name of two models", alias.value));
        }
        models
    }

    fn model(&mut self, name: &Spanned<String>, raw: &raw::Model) -> Model {
        self.check_model_name(name);
        if raw.candidates.is_empty() {
            let message = format!("the model `{}` needs at least one candidate", name.value);
            self.problem(raw.candidates.origin, message);
        }
        let aliases = raw.aliases.iter().map(|alias| self.alias(alias)).collect();
        let mut candidates: Vec<Candidate> = raw.candidates.iter().map(|raw| self.candidate(raw)).collect();
        for (index, one) in candidates.iter().enumerate() {
            if candidates[..index].iter().any(|other| other.provider == one.provider && other.model == one.model) {
                let origin = raw.candidates[index].origin;
                self.problem(
                    origin,
                    format!("the candidate `{}` occurs twice; give it a larger `weight` instead", one.model),
                );
            }
        }
        candidates.sort_by_key(|candidate| candidate.tier);
        Model {
            name: name.as_str().into(),
            aliases,
            candidates,
            attempts: raw.attempts.get(),
            retry_after: raw.retry_after.0,
            recover: match raw.recover {
                OrNone::None => Recover::None,
                OrNone::Some(raw::Recover::Splice) => Recover::Splice,
                OrNone::Some(raw::Recover::Continue) => {
                    if raw.candidates.iter().all(|candidate| candidate.prefill.is_none()) {
                        let message = "`recover: continue` needs a candidate with `prefill`, which says how its server goes on with a text";
                        self.problem(raw.candidates.origin, message);
                    }
                    Recover::Continue
                }
            },
            first_token: time(&raw.timeouts.first_token),
            token_idle: time(&raw.timeouts.token_idle),
            total: time(&raw.timeouts.total),
        }
    }

    fn candidate(&mut self, raw: &Spanned<raw::Candidate>) -> Candidate {
        let file = self.file;
        self.check_model_name(&raw.model);
        Candidate {
            provider: ProviderId(self.position(&file.providers, &raw.provider, "provider")),
            model: raw.model.as_str().into(),
            tier: raw.tier.get(),
            weight: raw.weight.get(),
            context: raw.context.map(|tokens| u64::from(tokens.get())),
            max_output: raw.max_output.map(|tokens| u64::from(tokens.get())),
            prefill: raw.prefill.as_option().map(|prefill| match prefill {
                raw::Prefill::Assistant => Prefill::Assistant,
                raw::Prefill::Prefix => Prefill::Prefix,
                raw::Prefill::ContinueFinalMessage => Prefill::ContinueFinalMessage,
            }),
            price: self.price(&raw.provider, &raw.model),
        }
    }

    fn alias(&mut self, raw: &Spanned<String>) -> Alias {
        match raw.split_once('*') {
            None => {
                self.check_model_name(raw);
                Alias::Exact(raw.as_str().into())
            }
            Some((before, behind)) => {
                if behind.contains('*') {
                    self.problem(raw.origin, format!("`{}` has more than one `*`", raw.value));
                }
                Alias::Pattern(before.into(), behind.into())
            }
        }
    }

    /// Names of models appear in header fields, logs and metrics.
    fn check_model_name(&mut self, name: &Spanned<String>) {
        let is_fine = !name.is_empty()
            && name.len() <= 256
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'*'));
        if !is_fine {
            let message =
                format!("`{}` cannot be the name of a model; use up to 256 letters, digits and signs", name.value);
            self.problem(name.origin, message);
        }
    }

    pub(super) fn route_ai(&mut self, route: &str, raw: &Spanned<raw::RouteAi>) -> RouteAi {
        let file = self.file;
        let mut models: Vec<ModelId> = Vec::new();
        for name in &raw.models {
            let id = ModelId(self.position(&file.models, name, "model"));
            if models.contains(&id) && file.models.position(name).is_some() {
                self.problem(name.origin, format!("the model `{}` is named twice", name.value));
            }
            models.push(id);
        }
        if raw.models.is_empty() {
            models = (0..file.models.iter().count()).map(ModelId).collect();
            if models.is_empty() {
                self.problem(raw.origin, "an AI route needs `models`; the file defines none");
            }
        }
        let default_model =
            raw.default_model.as_option().map(|name| ModelId(self.position(&file.models, name, "model")));
        if let (Some(id), Some(name)) = (default_model, raw.default_model.as_option())
            && !models.contains(&id)
        {
            let message =
                format!("`default_model` is `{}`, which the route does not serve; add it to `models`", name.value);
            self.problem(name.origin, message);
        }
        let mut upstreams: Vec<UpstreamId> = Vec::new();
        for id in &models {
            let candidates = file.models.iter().nth(id.0).map_or(&[][..], |(_, model)| &model.candidates[..]);
            for candidate in candidates {
                let provider = file.providers.iter().find(|(name, _)| name.value == candidate.provider.value);
                let position = provider.and_then(|(_, provider)| file.upstreams.position(&provider.upstream));
                if let Some(upstream) = position.map(UpstreamId)
                    && !upstreams.contains(&upstream)
                {
                    upstreams.push(upstream);
                }
            }
        }
        let redact = raw.redact.iter().map(|redaction| redaction.0.clone()).collect();
        let guard = raw.guard.as_option().and_then(|guard| self.guard(route, guard));
        RouteAi { models, default_model, upstreams, heartbeat: time(&raw.heartbeat), redact, guard }
    }

    fn guard(&mut self, route: &str, raw: &Spanned<raw::Guard>) -> Option<Guard> {
        let has = |moment| raw.when.0.iter().any(|one| one.value == moment);
        let (before, after) = (has(raw::GuardMoment::Before), has(raw::GuardMoment::After));
        if !before && !after {
            self.problem(raw.origin, "`when` is empty: the guard would read nothing");
        }
        if after && !raw.hold_streams {
            let message = "a guard that reads responses needs `hold_streams: true`: a stream is held whole until the guard has read it";
            self.problem(raw.origin, message);
        }
        // No name of the file has a colon, and no two routes have one name.
        let own = format!("guard:{route}");
        let (url, upstream, path) = (raw.url.as_ref(), raw.upstream.as_ref(), raw.path.as_ref());
        let place = ServiceAddress { origin: raw.origin, url, upstream, path };
        let (action, path) = self.service((&own, "a guard"), &place, AuthorizerForm::Traefik, raw.timeout.0.0)?;
        let fails_open = raw.on_failure == raw::OnAuthorizerFailure::Allow;
        Some(Guard { action, path, before, after, fails_open })
    }
}
