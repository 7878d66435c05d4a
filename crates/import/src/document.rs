//! A configuration of Weir that is being made.

use std::collections::{HashMap, HashSet};

use crate::pattern::Path;
use crate::report::{Report, SourceLocation};
use crate::units;

/// A value as YAML has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Written as it stands: a number, `true`, `none`, a duration.
    Word(String),
    /// A text, quoted where it has to be; `${` in it is kept as text.
    Text(String),
    /// A text whose `${VAR}` is one of Weir's variables.
    Variable(String),
    /// The value of a header field in which `{name}` is what a request has.
    Template(String),
    List(Vec<Value>),
    Map(Map),
}

/// Keys in the order in which they are written.
pub(crate) type Map = Vec<(String, Value)>;

pub(crate) fn word(value: impl ToString) -> Value {
    Value::Word(value.to_string())
}

pub(crate) fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

pub(crate) fn texts<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Value {
    Value::List(values.into_iter().map(text).collect())
}

pub(crate) fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// `compress` of a route: codings, the shortest body, media types (none: Weir's own), and levels.
pub(crate) fn compression(codings: &[&str], min: u64, types: &[String], levels: &[(&str, u64)]) -> Value {
    let mut value =
        vec![("codings".to_owned(), texts(codings.iter().copied())), ("min".to_owned(), word(units::size(min)))];
    if !types.is_empty() {
        value.push(("types".to_owned(), texts(types.iter().map(String::as_str))));
    }
    let range = |coding: &str| match coding {
        "zstd" => (1, 9),
        "br" => (0, 6),
        _ => (1, 9),
    };
    let levels: Map = levels
        .iter()
        .map(|(coding, level)| {
            let (least, most) = range(coding);
            ((*coding).to_owned(), word((*level).clamp(least, most)))
        })
        .collect();
    if !levels.is_empty() {
        value.push(("levels".to_owned(), Value::Map(levels)));
    }
    Value::Map(value)
}

/// Whether a text is a media type, or one with a `*` for its second part, as `compress.types` takes it.
pub(crate) fn is_media_type(text: &str) -> bool {
    text.split_once('/').is_some_and(|(kind, rest)| {
        kind != "*" && is_token(kind) && (rest == "*" || (is_token(rest) && !rest.contains('*')))
    })
}

/// A time in milliseconds; 0 is `none`.
pub(crate) fn time(ms: u64) -> Value {
    word(if ms == 0 { "none".to_owned() } else { units::duration(ms) })
}

/// What a route wants of a header field or a query parameter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Wanted {
    /// This value.
    Is(String),
    /// A value that matches as a whole.
    Matches(String),
    /// A value, or none.
    Present(bool),
}

impl Wanted {
    pub(crate) fn value(&self) -> Value {
        match self {
            Wanted::Is(value) => text(value),
            Wanted::Matches(expression) => map([("regex", text(expression))]),
            Wanted::Present(present) => map([("present", word(present))]),
        }
    }
}

/// A named part: an upstream, a limit, an authenticator, a cache.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) place: SourceLocation,
    /// What the source calls it.
    pub(crate) note: String,
    pub(crate) value: Map,
}

/// A route.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) place: SourceLocation,
    /// What the source calls it.
    pub(crate) note: String,
    pub(crate) name: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) path: Path,
    /// Empty: any.
    pub(crate) methods: Vec<String>,
    pub(crate) headers: Vec<(String, Wanted)>,
    pub(crate) query: Vec<(String, Wanted)>,
    /// Everything beside `name` and `match`.
    pub(crate) keys: Map,
    /// Position among the source's own rules, for the comparison of precedence.
    pub(crate) rank: usize,
}

impl Route {
    pub(crate) fn new(place: &SourceLocation, note: impl Into<String>, path: Path) -> Self {
        Self {
            place: place.clone(),
            note: note.into(),
            name: None,
            host: None,
            path,
            methods: Vec::new(),
            headers: Vec::new(),
            query: Vec::new(),
            keys: Map::new(),
            rank: 0,
        }
    }

    /// Adds a key, or replaces what stands under it.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        match self.keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }

    /// Adds a key inside of a mapping such as `rewrite`.
    pub(crate) fn set_in(&mut self, key: &str, inner: &str, value: Value) {
        if !self.keys.iter().any(|(known, _)| known == key) {
            self.keys.push((key.to_owned(), Value::Map(Map::new())));
        }
        if let Some((_, Value::Map(map))) = self.keys.iter_mut().find(|(known, _)| known == key) {
            set(map, inner, value);
        }
    }

    /// A header edit: `side` is `request` or `response`, `edit` is `set` or `add`.
    pub(crate) fn edit_header(&mut self, side: &str, edit: &str, name: &str, value: Value) {
        let value = match value {
            Value::Text(value) => Value::Template(crate::variables::literal(&value)),
            value => value,
        };
        if !self.keys.iter().any(|(known, _)| known == "headers") {
            self.keys.push(("headers".to_owned(), Value::Map(Map::new())));
        }
        let Some((_, Value::Map(headers))) = self.keys.iter_mut().find(|(known, _)| known == "headers") else { return };
        if !headers.iter().any(|(known, _)| known == side) {
            headers.push((side.to_owned(), Value::Map(Map::new())));
        }
        let Some((_, Value::Map(edits))) = headers.iter_mut().find(|(known, _)| known == side) else { return };
        if edit == "remove" {
            match edits.iter_mut().find(|(known, _)| known == "remove") {
                Some((_, Value::List(names))) => names.push(text(name)),
                _ => edits.push(("remove".to_owned(), Value::List(vec![text(name)]))),
            }
            return;
        }
        if !edits.iter().any(|(known, _)| known == edit) {
            edits.push((edit.to_owned(), Value::Map(Map::new())));
        }
        if let Some((_, Value::Map(fields))) = edits.iter_mut().find(|(known, _)| known == edit) {
            fields.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            fields.push((name.to_owned(), value));
        }
    }

    /// Responds without an upstream: what the source does here could not be expressed, and no other route may take its requests.
    pub(crate) fn close(&mut self) {
        self.keys = vec![(
            "respond".to_owned(),
            map([("status", word(501)), ("body", text("this part of the configuration was not imported\n"))]),
        )];
    }
}

/// Adds a key, or replaces what stands under it.
pub(crate) fn set(map: &mut Map, key: &str, value: Value) {
    match map.iter_mut().find(|(known, _)| known == key) {
        Some((_, old)) => *old = value,
        None => map.push((key.to_owned(), value)),
    }
}

/// A listener.
#[derive(Debug, Clone)]
pub(crate) struct Listen {
    pub(crate) place: SourceLocation,
    pub(crate) value: Value,
}

/// A whole configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Document {
    pub(crate) listen: Vec<Listen>,
    /// Further keys of the top level, such as `server`.
    pub(crate) top: Map,
    pub(crate) upstreams: Vec<Entry>,
    pub(crate) providers: Vec<Entry>,
    pub(crate) models: Vec<Entry>,
    pub(crate) auth: Vec<Entry>,
    pub(crate) limits: Vec<Entry>,
    pub(crate) caches: Vec<Entry>,
    pub(crate) routes: Vec<Route>,
    pub(crate) report: Report,
    names: HashSet<String>,
}

impl Document {
    /// A name for an upstream, limit, cache or authenticator: letters, digits, `_`, `-` and `.`, at most 64, each once.
    pub(crate) fn name(&mut self, kind: &str, wanted: &str) -> String {
        let base = plain_name(wanted);
        let mut name = base.clone();
        let mut number = 2;
        while !self.names.insert(format!("{kind}/{name}")) {
            name = format!("{}-{number}", &base[..base.len().min(58)]);
            number += 1;
        }
        name
    }

    /// Names are given once: where several routes have one of the source, Weir makes their names from the paths.
    pub(crate) fn unique_names(&mut self) {
        let mut count: HashMap<String, usize> = HashMap::new();
        for name in self.routes.iter().filter_map(|route| route.name.clone()) {
            *count.entry(name).or_default() += 1;
        }
        for route in &mut self.routes {
            if route.name.as_ref().is_some_and(|name| count.get(name) != Some(&1) || name == "none") {
                route.name = None;
            }
        }
    }

    /// Leaves out `compress` where Weir has nothing to compress, and where lengths can tell what is secret (BREACH): on routes with `auth`.
    pub(crate) fn leave_secrets_uncompressed(&mut self) {
        let has = |route: &Route, key: &str| route.keys.iter().any(|(known, _)| known == key);
        let mut is_told = false;
        for route in self.routes.iter_mut().filter(|route| has(route, "compress")) {
            let has_auth = has(route, "auth");
            if has_auth || !(has(route, "upstream") || has(route, "split")) {
                route.keys.retain(|(key, _)| key != "compress");
            }
            if has_auth && !is_told {
                is_told = true;
                let how = "not written on routes with `auth`, because lengths can tell what is secret; `compress: {also: [auth]}` does it all the same";
                self.report.differs(&route.place, "compression of a route with `auth`", how);
            }
        }
        if is_told {
            self.report.sort();
        }
    }

    /// Drops routes that no request can reach: those that match as one before them, or of whose methods none is left.
    pub(crate) fn drop_doubles(&mut self) {
        let mut kept: Vec<Route> = Vec::with_capacity(self.routes.len());
        let mut alike: HashMap<MatchKey, Vec<usize>> = HashMap::new();
        for mut route in std::mem::take(&mut self.routes) {
            let mut headers: Vec<(String, Wanted)> =
                route.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
            headers.sort();
            let mut query = route.query.clone();
            query.sort();
            let others = alike.entry((route.host.clone(), route.path.shape(), headers, query)).or_default();
            let mut before = None;
            let mut unreachable = false;
            for other in others.iter().map(|&index| &kept[index]) {
                before = Some(other.place.clone());
                if other.methods.is_empty() {
                    unreachable = true;
                } else if route.methods.is_empty() {
                    // Weir takes the one that names the method first; order in the file decides nothing here.
                    continue;
                } else {
                    route.methods.retain(|method| !other.methods.contains(method));
                    unreachable = route.methods.is_empty();
                }
                if unreachable {
                    break;
                }
            }
            match before {
                Some(before) if unreachable => {
                    let how = format!("every request that it matches is taken by {before}");
                    self.report.differs(&route.place, route.note, how);
                }
                _ => {
                    others.push(kept.len());
                    kept.push(route);
                }
            }
        }
        self.routes = kept;
    }
}

/// What two routes share when only their methods tell them apart: host, shape of the path, header fields, query parameters.
type MatchKey = (Option<String>, String, Conditions, Conditions);

/// What a route wants of fields or parameters, by their names.
pub(crate) type Conditions = Vec<(String, Wanted)>;

/// Letters, digits, `_`, `-` and `.`; `x` where nothing is left.
pub(crate) fn plain_name(wanted: &str) -> String {
    let plain: String =
        wanted.chars().map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '-' }).take(64).collect();
    let plain = plain.trim_matches(['-', '.']);
    if plain.is_empty() { "x".to_owned() } else { plain.to_owned() }
}

/// Whether a text is the name of a header field (RFC 9110, section 5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Whether a text may be the value of a header field as Weir writes it.
pub(crate) fn is_field_value(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7f).contains(&b)) && text.trim() == text
}

/// Fields that the gateway writes itself and that a configuration of Weir may not set.
pub(crate) fn is_own_field(name: &str) -> bool {
    const OWN: [&str; 14] = [
        "connection",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
        "host",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-request-id",
    ];
    OWN.iter().any(|own| own.eq_ignore_ascii_case(name))
}
