//! Paths as gateways can say them.

use apidoc::Method;

use super::model::{Model, Part, PathEntry, Segment, Target, order};
use super::security::Guard;
use super::text::{decoded, every_form, regex};

/// The paths of a model for a gateway that cannot say every segment: one for which `can` is false becomes a parameter, which matches more,
/// and there is a note about it. A parameter that may hold slashes becomes one segment; at the end of a path there is also a path for
/// everything below that segment, if `below` says that the gateway can match that: the one whose last parameter still may hold slashes. Paths that thereby become one are one, if they go to one upstream.
///
/// # Errors
/// In words, when they do not.
pub(super) fn widened(
    model: &Model,
    below: bool,
    can: impl Fn(&Segment) -> bool,
) -> Result<(Vec<PathEntry>, Vec<String>), String> {
    let mut out: Vec<PathEntry> = Vec::with_capacity(model.paths.len());
    let mut notes = Vec::new();
    let can = |segment: &Segment| segment.multi_segment().is_some() || can(segment);
    let (mut changed, mut single) = (Vec::new(), Vec::new());
    for path in &model.paths {
        let mut path = path.clone();
        let template = path.template();
        for name in narrow(&mut path.segments, below) {
            notes.push(format!("{template} is matched only where {{{name}}} is one segment"));
        }
        if path.segments.last().is_some_and(|last| last.multi_segment().is_some()) {
            let mut one = path.clone();
            narrow(&mut one.segments, false);
            single.push(one);
        }
        // Those that are as described come first, so that others are merged into them.
        if path.segments.iter().all(&can) { out.push(path) } else { changed.push(path) }
    }
    for path in single {
        match out.iter_mut().find(|other| same_shape(&other.segments, &path.segments)) {
            None if path.segments.iter().all(&can) => out.push(path),
            None => changed.push(path),
            Some(other) => merge(other, &path, &path.template(), model)?,
        }
    }
    for path in &changed {
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

/// Makes parameters with slashes plain ones, but for one that is the last segment if `below`; gives the names of those that were.
fn narrow(segments: &mut [Segment], below: bool) -> Vec<String> {
    let last = segments.len() - 1;
    let mut names = Vec::new();
    for (i, segment) in segments.iter_mut().enumerate() {
        if below && i == last && segment.multi_segment().is_some() {
            continue;
        }
        for part in &mut segment.parts {
            if let Part::MultiSegment(name) = part {
                names.push(name.clone());
                *part = Part::Parameter(std::mem::take(name));
            }
        }
    }
    names
}

fn widen(segment: &Segment) -> Segment {
    let names: Vec<&str> = segment
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Parameter(name) | Part::MultiSegment(name) => Some(name.as_str()),
        })
        .collect();
    let name = if names.is_empty() { "any".to_owned() } else { names.join("_") };
    Segment { parts: vec![Part::Parameter(name)] }
}

fn same_shape(a: &[Segment], b: &[Segment]) -> bool {
    let same = |a: &Segment, b: &Segment| {
        (a.parameter().is_some() && b.parameter().is_some())
            || (a.multi_segment().is_some() && b.multi_segment().is_some())
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || same(a, b))
}

fn merge(into: &mut PathEntry, from: &PathEntry, described: &str, model: &Model) -> Result<(), String> {
    for target in &from.targets {
        let taken = |method: &Method| into.targets.iter().find(|other| other.methods.contains(method));
        let other = |method: &Method, differs: &dyn Fn(&Target) -> bool| taken(method).is_some_and(differs);
        if let Some(method) =
            target.methods.iter().find(|method| other(method, &|other| other.upstream != target.upstream))
        {
            return Err(format!(
                "{method} {described} and {method} {} are one to it, and they go to different upstreams ({})",
                into.template(),
                model.upstreams[target.upstream].url()
            ));
        }
        if let Some(method) = target.methods.iter().find(|method| other(method, &|other| other.guard != target.guard)) {
            return Err(format!(
                "{method} {described} and {method} {} are one to it, and they need different credentials",
                into.template()
            ));
        }
        let new: Vec<Method> = target.methods.iter().copied().filter(|method| taken(method).is_none()).collect();
        let same = |other: &&mut Target| (other.upstream, other.guard) == (target.upstream, target.guard);
        match into.targets.iter_mut().find(same) {
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
        out.push(segment.parameter().or_else(|| segment.multi_segment()).map(|name| {
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
                (_, Some(name)) => out.extend(["{", name, "}"]),
                (_, None) => out.push_str(&part(i, j)),
            }
        }
    }
    out
}

/// [`template`] for gateways that take literals as they are in a request, a part of a segment by a plain name, and `/*` for all that is below.
pub(super) fn plain_template(segments: &[Segment]) -> String {
    let below = segments.last().is_some_and(|last| last.multi_segment().is_some());
    let path = template(segments, str::to_owned, |segment, part| format!("{{part{segment}_{part}}}"));
    if below { path + "/*" } else { path }
}

/// The path as a regular expression without anchors: literals by `literal`, `[^/]+` for parameters, `[^/].*` for those with slashes.
pub(super) fn pattern(segments: &[Segment], literal: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for segment in segments {
        out.push('/');
        for part in &segment.parts {
            match part {
                Part::Literal(text) => out.push_str(&literal(text)),
                Part::Parameter(_) => out.push_str("[^/]+"),
                Part::MultiSegment(_) => out.push_str("[^/].*"),
            }
        }
    }
    out
}

/// Whether the check of a path depends on it that its literals are recognised in every percent-encoding: one that is not would be taken for another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contested {
    /// It does not.
    No,
    /// Another path with another check has a parameter there.
    Segment,
    /// Another path with another check has a parameter there that may hold slashes.
    Slashes,
}

/// For each path, whether a later one that matches the same request in another encoding has another check.
pub(super) fn contested(paths: &[PathEntry]) -> Vec<Contested> {
    let guard = |path: &PathEntry, method: Method| {
        path.targets.iter().find(|target| target.methods.contains(&method)).map(|target| target.guard)
    };
    let against = |path: &PathEntry, other: &PathEntry| {
        let differs = |method| match (guard(path, method), guard(other, method)) {
            (Some(Guard::Open), _) | (_, None) => false,
            (one, two) => one != two,
        };
        if path.methods().any(differs) { overlap(&path.segments, &other.segments) } else { Contested::No }
    };
    let worst = |(i, path): (usize, &PathEntry)| {
        let all = || paths[i + 1..].iter().map(|other| against(path, other));
        match path.targets.iter().all(|target| target.guard == Guard::Open) {
            true => Contested::No,
            false if all().any(|one| one == Contested::Slashes) => Contested::Slashes,
            false if all().any(|one| one == Contested::Segment) => Contested::Segment,
            false => Contested::No,
        }
    };
    paths.iter().enumerate().map(worst).collect()
}

/// Whether there may be a path that two templates match, if percent-encoding is undone.
fn overlap(a: &[Segment], b: &[Segment]) -> Contested {
    let slashes = |segment: &Segment| segment.parts.iter().any(|part| matches!(part, Part::MultiSegment(_)));
    for (a, b) in a.iter().zip(b) {
        match (a.literal(), b.literal()) {
            (Some(a), Some(b)) if decoded(a) != decoded(b) => return Contested::No,
            (Some(""), None) | (None, Some("")) => return Contested::No,
            _ if slashes(a) || slashes(b) => return Contested::Slashes,
            _ => {}
        }
    }
    if a.len() == b.len() { Contested::Segment } else { Contested::No }
}

/// [`pattern`] of a path for gateways that compare it as it came, or (if `plain`) with unreserved characters decoded: a contested path in every encoding.
pub(super) fn checked_pattern(segments: &[Segment], contested: Contested, plain: bool) -> String {
    match contested {
        Contested::No => pattern(segments, regex),
        Contested::Segment => pattern(segments, |literal| every_form(literal, plain)),
        Contested::Slashes => {
            // What servers take for one slash.
            with_slashes(&pattern(segments, |literal| every_form(literal, plain)), "(/|%2[Ff])+")
        }
    }
}

/// A [`pattern`] with something else for every slash but the first.
pub(super) fn with_slashes(pattern: &str, slash: &str) -> String {
    // `[^/]` is of a parameter.
    let pieces = pattern.split_inclusive("[^/]").map(|piece| match piece.strip_suffix("[^/]") {
        Some(before) => before.replace('/', slash) + "[^/]",
        None => piece.replace('/', slash),
    });
    pieces.collect::<String>().replacen(slash, "/", 1)
}
