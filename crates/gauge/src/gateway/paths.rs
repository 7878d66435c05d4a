//! Paths as gateways can say them.

use apidoc::Method;

use super::model::{Model, Part, PathEntry, Segment, Target, order};

/// The paths of a model for a gateway that cannot say every segment: one for which `can` is false becomes a parameter, which matches more,
/// and there is a note about it. Paths that thereby become one are one, if they go to one upstream.
///
/// # Errors
/// In words, when they do not.
pub(super) fn widened(model: &Model, can: impl Fn(&Segment) -> bool) -> Result<(Vec<PathEntry>, Vec<String>), String> {
    let mut out: Vec<PathEntry> = Vec::with_capacity(model.paths.len());
    let mut notes = Vec::new();
    for path in &model.paths {
        if path.segments.iter().all(&can) {
            out.push(path.clone());
        }
    }
    for path in model.paths.iter().filter(|path| !path.segments.iter().all(&can)) {
        let segments: Vec<Segment> =
            path.segments.iter().map(|segment| if can(segment) { segment.clone() } else { widen(segment) }).collect();
        let wide = PathEntry { segments, targets: path.targets.clone() };
        notes.push(format!("{} is matched as {}", path.template(), wide.template()));
        match out.iter_mut().find(|other| same_shape(&other.segments, &wide.segments)) {
            None => out.push(wide),
            Some(other) => merge(other, &wide, &path.template(), model)?,
        }
    }
    out.sort_by_cached_key(|path| order(&path.segments));
    Ok((out, notes))
}

fn widen(segment: &Segment) -> Segment {
    let names: Vec<&str> = segment
        .parts
        .iter()
        .filter_map(|part| if let Part::Parameter(name) = part { Some(name.as_str()) } else { None })
        .collect();
    let name = if names.is_empty() { "any".to_owned() } else { names.join("_") };
    Segment { parts: vec![Part::Parameter(name)] }
}

fn same_shape(a: &[Segment], b: &[Segment]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || (a.parameter().is_some() && b.parameter().is_some()))
}

fn merge(into: &mut PathEntry, from: &PathEntry, described: &str, model: &Model) -> Result<(), String> {
    for target in &from.targets {
        let taken = |method: &Method| {
            into.targets.iter().find(|other| other.methods.contains(method)).map(|other| other.upstream)
        };
        if let Some(method) =
            target.methods.iter().find(|method| taken(method).is_some_and(|other| other != target.upstream))
        {
            return Err(format!(
                "{method} {described} and {method} {} are one to it, and they go to different upstreams ({})",
                into.template(),
                model.upstreams[target.upstream].url()
            ));
        }
        let new: Vec<Method> = target.methods.iter().copied().filter(|method| taken(method).is_none()).collect();
        match into.targets.iter_mut().find(|other| other.upstream == target.upstream) {
            Some(other) => {
                other.methods.extend(new);
                other.routes.extend(&target.routes);
            }
            None => into.targets.push(Target { methods: new, ..target.clone() }),
        }
    }
    Ok(())
}

/// A name for the parameter of each segment that is one, of ASCII letters, digits and `_` and beginning with a letter, each once.
pub(super) fn names(segments: &[Segment]) -> Vec<Option<String>> {
    let mut out: Vec<Option<String>> = Vec::with_capacity(segments.len());
    for (i, segment) in segments.iter().enumerate() {
        out.push(segment.parameter().map(|name| {
            let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let plain =
                if plain.starts_with(|c: char| c.is_ascii_alphabetic()) { plain } else { format!("p{i}{plain}") };
            if out.iter().flatten().any(|other| *other == plain) { format!("{plain}_{i}") } else { plain }
        }));
    }
    out
}

/// `/active/{auctionID}`: parameters that are a segment by the names of [`names`], those that are only a part of one as `part` says, by the places of
/// the segment and of the part in it; literals by `literal`.
pub(super) fn template(
    segments: &[Segment],
    literal: impl Fn(&str) -> String,
    part: impl Fn(usize, usize) -> String,
) -> String {
    let mut out = String::new();
    for (i, (segment, name)) in segments.iter().zip(names(segments)).enumerate() {
        out.push('/');
        for (j, piece) in segment.parts.iter().enumerate() {
            match (piece, &name) {
                (Part::Literal(text), _) => out.push_str(&literal(text)),
                (Part::Parameter(_), Some(name)) => out.extend(["{", name, "}"]),
                (Part::Parameter(_), None) => out.push_str(&part(i, j)),
            }
        }
    }
    out
}

/// [`template`] for gateways that take literals as they stand in a request and a part of a segment by a plain name.
pub(super) fn plain_template(segments: &[Segment]) -> String {
    template(segments, str::to_owned, |segment, part| format!("{{part{segment}_{part}}}"))
}

/// The path as a regular expression without anchors: literals by `literal`, `[^/]+` for parameters.
pub(super) fn pattern(segments: &[Segment], literal: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for segment in segments {
        out.push('/');
        for part in &segment.parts {
            match part {
                Part::Literal(text) => out.push_str(&literal(text)),
                Part::Parameter(_) => out.push_str("[^/]+"),
            }
        }
    }
    out
}
