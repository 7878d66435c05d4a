//! `fail: {p99: ">50ms"}`.

use crate::load::units;
use crate::results::{Metric, Operator, Threshold};

pub(super) fn read(metric: &str, written: &str) -> Result<Threshold, String> {
    let Some((name, metric)) = Metric::ALL.into_iter().find(|(name, _)| *name == metric) else {
        let known = Metric::ALL.map(|(name, _)| name).join(", ");
        return Err(format!("`fail` has `{metric}`, an unknown figure; expected one of {known}"));
    };
    let written = written.trim();
    let found = Operator::ALL.into_iter().find_map(|(sign, operator)| Some((operator, written.strip_prefix(sign)?)));
    let wrong = |why: &str| format!("`fail` has `{name}: \"{written}\"`: {why}");
    let Some((operator, limit)) = found else {
        return Err(wrong("it must begin with >, >=, < or <="));
    };
    let limit = limit.trim();
    let value = match metric {
        Metric::Errors => super::share(limit),
        Metric::Rate => units::rate(limit),
        // A bare number would be seconds, which nobody means here.
        _ if limit.parse::<f64>().is_ok() => Err(format!("`{limit}` has no unit; write 50ms")),
        _ => units::duration(limit).map(|duration| duration.as_secs_f64() * 1e3),
    };
    let limit = value.map_err(|why| wrong(&why))?;
    Ok(Threshold { metric, operator, limit, written: written.to_owned() })
}
