//! The AI route of the environment-only mode: both inference services are model servers too.

use std::num::NonZeroU32;

use super::{NODE, PYTHON};
use crate::PathPattern;
use crate::raw::shape::{Map, OrNone, Spanned};
use crate::raw::{self, Route};

/// Model of each service, as it names it itself.
const MODELS: [(&str, &str); 2] = [(PYTHON, "dummy-v0"), (NODE, "node-dummy-v0")];

/// Each service as a provider.
pub(super) fn providers() -> Map<raw::Provider> {
    let provider = |service: &str| raw::Provider {
        api: raw::ProviderApi::Openai.into(),
        upstream: service.to_owned().into(),
        keys: Vec::new(),
        base: None,
        headers: Map::default(),
    };
    MODELS.iter().map(|(service, _)| (service.to_string(), provider(service))).collect()
}

/// The model of each service; that of Python is served by Node while Python is down, as `/infer/python` is.
pub(super) fn models() -> Map<raw::Model> {
    let candidate = |place: usize, tier: NonZeroU32| {
        let (service, model) = MODELS[place];
        Spanned::from(raw::Candidate {
            provider: service.to_owned().into(),
            model: model.to_owned().into(),
            tier,
            weight: NonZeroU32::MIN,
            context: None,
            max_output: None,
            prefill: OrNone::None,
        })
    };
    let second = NonZeroU32::MIN.saturating_add(1);
    let of = |candidates| raw::Model::of(Spanned::from(candidates));
    Map::from_iter([
        (MODELS[0].1.to_owned(), of(vec![candidate(0, NonZeroU32::MIN), candidate(1, second)])),
        (MODELS[1].1.to_owned(), of(vec![candidate(1, NonZeroU32::MIN)])),
    ])
}

/// The route; any name of a model does, so that a client works as it is.
pub(super) fn route() -> Route {
    let mut route = Route::at(raw::Path(PathPattern::Prefix("/v1/".into())));
    route.name = Some(raw::text::Name("ai".to_owned()).into());
    let default_model = OrNone::Some(Spanned::from(MODELS[0].1.to_owned()));
    route.ai = Some(raw::RouteAi { default_model, ..raw::RouteAi::default() }.into());
    route
}
