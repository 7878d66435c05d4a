//! What the console shows of a configuration in force.

use std::time::SystemTime;

use crate::admin::{CandidateState, CertificateState, ModelState, ProcessState, ProviderKeyState, ProviderState};
use crate::config::{ModelId, ProviderId};
use crate::observe::clock::unix_ms;
use crate::worker::shared::Shared;
use crate::worker::snapshot::Generation;

/// Everything that the workers share.
pub fn of(shared: &Shared) -> ProcessState {
    let generation = shared.generation();
    ProcessState {
        workers: shared.workers().len(),
        certificates: certificates(&generation),
        providers: providers(&generation),
        models: models(&generation),
        ..ProcessState::default()
    }
}

fn certificates(generation: &Generation) -> Vec<CertificateState> {
    let now = SystemTime::now();
    let names = generation.config.listen.iter().filter_map(|listener| listener.names());
    let mut hosts: Vec<CertificateState> = Vec::new();
    for (host, not_after) in names.flat_map(tls::Names::hosts) {
        let seconds_left = match not_after.duration_since(now) {
            Ok(left) => i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            Err(error) => -i64::try_from(error.duration().as_secs()).unwrap_or(i64::MAX),
        };
        let state = CertificateState { host, not_after_ms: unix_ms(not_after), seconds_left };
        // One host on several listeners: the certificate that ends first.
        match hosts.iter_mut().find(|known| known.host == state.host) {
            Some(known) if known.seconds_left > state.seconds_left => *known = state,
            Some(_) => {}
            None => hosts.push(state),
        }
    }
    hosts.sort_by_key(|state| state.seconds_left);
    hosts
}

/// Nanoseconds since process start, as health of keys has them.
fn now() -> u64 {
    crate::runtime::deadline::nanos(crate::runtime::clock::process_start().elapsed())
}

fn providers(generation: &Generation) -> Vec<ProviderState> {
    let (config, now) = (&generation.config, now());
    let providers = config.providers.iter().enumerate().map(|(index, provider)| {
        let health = generation.ai.keys(ProviderId(index));
        let keys = provider.keys.iter().zip(health).map(|(key, health)| ProviderKeyState {
            shown: key.shown.to_string(),
            weight: key.weight,
            is_out: health.is_out(now),
        });
        ProviderState {
            name: provider.name.to_string(),
            api: match provider.family {
                llm::api::Family::OpenAi => "openai",
                llm::api::Family::Anthropic => "anthropic",
                llm::api::Family::Gemini => "gemini",
            },
            upstream: config.upstreams[provider.upstream.0].name.to_string(),
            keys: keys.collect(),
        }
    });
    providers.collect()
}

fn models(generation: &Generation) -> Vec<ModelState> {
    let (config, now) = (&generation.config, now());
    let counts = generation.ai.counters.by_model();
    let models = config.models.iter().enumerate().map(|(index, model)| {
        let health = generation.ai.candidates(ModelId(index));
        let candidates = model.candidates.iter().zip(health).map(|(candidate, health)| CandidateState {
            provider: config.providers[candidate.provider.0].name.to_string(),
            model: candidate.model.to_string(),
            tier: candidate.tier,
            weight: candidate.weight,
            is_out: health.is_out(now),
        });
        let counts = counts.get(&model.name).copied().unwrap_or_default();
        ModelState {
            name: model.name.to_string(),
            candidates: candidates.collect(),
            requests: counts.requests,
            failed: counts.failed,
            input_tokens: counts.input_tokens,
            output_tokens: counts.output_tokens,
        }
    });
    models.collect()
}
