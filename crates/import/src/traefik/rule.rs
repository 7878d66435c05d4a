//! Rules of routers.

use crate::document::Wanted;
use crate::expression::{self, Expression};
use crate::pattern::{self, Path, Segment};
use crate::template::{self, Anchor};

/// Parts of a rule, and alternatives that it may become.
const MAX_PARTS: usize = 128;
const MAX_DEPTH: usize = 16;

/// One alternative of a rule: all parts have to fit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Alternative {
    pub(crate) hosts: Vec<String>,
    pub(crate) paths: Vec<Path>,
    pub(crate) methods: Vec<String>,
    pub(crate) headers: Vec<(String, Wanted)>,
    pub(crate) query: Vec<(String, Wanted)>,
    /// Where the translation matches more or less, in words.
    pub(crate) notes: Vec<String>,
}

/// A rule as alternatives; in words, why it has no equivalent.
pub(super) fn read(text: &str) -> Result<Vec<Alternative>, String> {
    if text.len() > 8192 {
        return Err("the rule is longer than 8192 bytes".to_owned());
    }
    let mut parser = Parser { rest: text, depth: 0 };
    let alternatives = parser.any()?;
    parser.space();
    if parser.rest.is_empty() {
        Ok(merged(alternatives))
    } else {
        Err(format!("`{}` in the rule is not understood", shown(parser.rest)))
    }
}

/// Alternatives that differ in their methods only, as one.
fn merged(alternatives: Vec<Alternative>) -> Vec<Alternative> {
    let mut out: Vec<Alternative> = Vec::new();
    for mut alternative in alternatives {
        let methods = std::mem::take(&mut alternative.methods);
        let same = |known: &&mut Alternative| Alternative { methods: Vec::new(), ..(**known).clone() } == alternative;
        match out.iter_mut().find(same) {
            Some(known) if methods.is_empty() || known.methods.is_empty() => known.methods.clear(),
            Some(known) => known.methods.extend(methods),
            None => out.push(Alternative { methods, ..alternative }),
        }
    }
    out.iter_mut().for_each(|alternative| alternative.methods.dedup());
    out
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, word: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Result<Vec<Alternative>, String> {
        let mut out = self.all()?;
        while self.eat("||") {
            out.extend(self.all()?);
            if out.len() > MAX_PARTS {
                return Err(format!("the rule has more than {MAX_PARTS} alternatives"));
            }
        }
        Ok(out)
    }

    fn all(&mut self) -> Result<Vec<Alternative>, String> {
        let mut out = self.one()?;
        while self.eat("&&") {
            let right = self.one()?;
            if out.len() * right.len() > MAX_PARTS {
                return Err(format!("the rule has more than {MAX_PARTS} alternatives"));
            }
            let mut both = Vec::new();
            for a in &out {
                for b in &right {
                    both.extend(join(a, b)?);
                }
            }
            out = both;
        }
        Ok(out)
    }

    fn one(&mut self) -> Result<Vec<Alternative>, String> {
        if self.eat("!") {
            return Err("`!` has no equivalent".to_owned());
        }
        if self.eat("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("the rule is nested too deeply".to_owned());
            }
            let out = self.any()?;
            self.depth -= 1;
            return if self.eat(")") { Ok(out) } else { Err("a `)` is missing in the rule".to_owned()) };
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        if name.is_empty() || !self.eat("(") {
            return Err(format!("`{}` in the rule is not understood", shown(self.rest)));
        }
        let mut arguments = Vec::new();
        loop {
            arguments.push(self.text()?);
            if self.eat(")") {
                break;
            }
            if !self.eat(",") || arguments.len() > MAX_PARTS {
                return Err("an argument of the rule is not closed".to_owned());
            }
        }
        matcher(name, &arguments)
    }

    fn text(&mut self) -> Result<String, String> {
        self.space();
        let quote = self
            .rest
            .chars()
            .next()
            .filter(|c| matches!(c, '`' | '"' | '\''))
            .ok_or("a text in backticks was expected in the rule")?;
        let inner = &self.rest[1..];
        let end = inner.find(quote).ok_or("a text in the rule is not closed")?;
        self.rest = &inner[end + 1..];
        Ok(inner[..end].to_owned())
    }
}

fn matcher(name: &str, arguments: &[String]) -> Result<Vec<Alternative>, String> {
    let each = |make: &dyn Fn(&String) -> Result<Alternative, String>| {
        arguments.iter().map(make).collect::<Result<Vec<_>, _>>()
    };
    match name {
        "Host" => each(&|host| {
            let valid = |label: &str| {
                !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
            };
            if !host.split('.').all(valid) {
                return Err(format!("Host(`{host}`): is not a host that Weir can match"));
            }
            Ok(Alternative { hosts: vec![host.to_ascii_lowercase()], ..Alternative::default() })
        }),
        "HostRegexp" => each(&|expression| {
            // `^.+\.example\.com$`, `{sub:[a-z]+}.example.com`
            let body = expression.trim_start_matches('^').trim_end_matches('$');
            let tail =
                ["[^.]+\\.", "[a-z0-9-]+\\.", "[a-z]+\\.", ".+\\."].iter().find_map(|start| body.strip_prefix(start));
            let tail = tail.map(|tail| tail.replace("\\.", "."));
            let tail = tail.filter(|tail| tail.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)));
            let tail = tail.ok_or_else(|| format!("HostRegexp(`{expression}`) has no equivalent"))?;
            let note = format!("HostRegexp(`{expression}`): every name below {tail} is matched");
            Ok(Alternative { hosts: vec![format!("*.{tail}")], notes: vec![note], ..Alternative::default() })
        }),
        "Path" => each(&|path| {
            let path = templated(path)?;
            Ok(Alternative { paths: vec![path], ..Alternative::default() })
        }),
        "PathPrefix" => Ok(each(&|path| {
            let mut alternative = Alternative::default();
            if !path.ends_with('/') {
                let note = format!(
                    "PathPrefix(`{path}`): Traefik takes it for the beginning of any name, `{path}x` too; Weir for `{path}` and all below `{path}/`"
                );
                alternative.notes.push(note);
                alternative.paths.push(templated(path)?);
            }
            let mut below = templated(path.trim_end_matches('/'))?;
            if path.trim_end_matches('/').is_empty() {
                below = Path::all();
            }
            below.wildcard = true;
            alternative.paths.push(below);
            Ok(alternative)
        })?),
        "PathRegexp" => each(&|expression| {
            let paths = template::paths(expression, Anchor::None, false)
                .map_err(|why| format!("PathRegexp(`{expression}`): {why}"))?;
            Ok(Alternative { paths, ..Alternative::default() })
        }),
        "Method" => Ok(vec![Alternative {
            methods: arguments.iter().map(|method| method.to_ascii_uppercase()).collect(),
            ..Alternative::default()
        }]),
        "Header" | "Headers" => match arguments {
            [name, value] if crate::document::is_token(name) && crate::document::is_field_value(value) => {
                let headers = vec![(name.clone(), Wanted::Is(value.clone()))];
                Ok(vec![Alternative { headers, ..Alternative::default() }])
            }
            _ => Err(format!("{name} needs a name and a value")),
        },
        "HeaderRegexp" | "HeadersRegexp" => match arguments {
            [field, written] if crate::document::is_token(field) => {
                let found = matching(name, expression::searched(written, false))?;
                Ok(vec![Alternative { headers: vec![(field.clone(), found)], ..Alternative::default() }])
            }
            _ => Err(format!("{name} needs a name and an expression")),
        },
        "Query" => match arguments {
            [parameter] => {
                let query = vec![(parameter.clone(), Wanted::Present(true))];
                Ok(vec![Alternative { query, ..Alternative::default() }])
            }
            [parameter, value] if !parameter.is_empty() && !value.contains(['{', '*']) => {
                let query = vec![(parameter.clone(), Wanted::Is(value.clone()))];
                Ok(vec![Alternative { query, ..Alternative::default() }])
            }
            _ => Err("Query needs a name and a value".to_owned()),
        },
        "QueryRegexp" => match arguments {
            [parameter, written] if !parameter.is_empty() => {
                let found = matching(name, expression::searched(written, false))?;
                Ok(vec![Alternative { query: vec![(parameter.clone(), found)], ..Alternative::default() }])
            }
            _ => Err("QueryRegexp needs a name and an expression".to_owned()),
        },
        other => Err(format!("{other}(...) has no equivalent")),
    }
}

fn matching(of: &str, expression: Result<Expression, String>) -> Result<Wanted, String> {
    expression.map(|found| Wanted::Matches(found.text().to_owned())).map_err(|why| format!("{of}: {why}"))
}

/// `/a/{id}` of version 2 is a template; version 3 has no braces.
fn templated(path: &str) -> Result<Path, String> {
    if path.is_empty() {
        return Ok(Path::all());
    }
    if !path.contains('{') {
        return Path::exact(&pattern::decode(path).ok_or("the path is not UTF-8")?);
    }
    let rest = path.strip_prefix('/').ok_or("a path begins with a slash")?;
    let mut segments = Vec::new();
    for (i, segment) in rest.split('/').enumerate() {
        match segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
            Some(name) if !name.contains(':') => segments.push(Segment::Param(format!("p{}", i + 1))),
            None if !segment.contains('{') => segments.push(pattern::literal(segment)?),
            _ => return Err(format!("`{segment}` in a path has no equivalent")),
        }
    }
    Ok(Path { segments, wildcard: false, expression: None })
}

/// Both alternatives at once; none if they exclude each other.
pub(crate) fn join(a: &Alternative, b: &Alternative) -> Result<Option<Alternative>, String> {
    let hosts = match (a.hosts.as_slice(), b.hosts.as_slice()) {
        (hosts, []) | ([], hosts) => hosts.to_vec(),
        (a, b) => a.iter().filter(|host| b.contains(host)).cloned().collect(),
    };
    let methods = match (a.methods.as_slice(), b.methods.as_slice()) {
        (methods, []) | ([], methods) => methods.to_vec(),
        (a, b) => a.iter().filter(|method| b.contains(method)).cloned().collect(),
    };
    if (hosts.is_empty() && !a.hosts.is_empty()) || (methods.is_empty() && !a.methods.is_empty()) {
        return Ok(None);
    }
    let paths = match (a.paths.as_slice(), b.paths.as_slice()) {
        (paths, []) | ([], paths) => paths.to_vec(),
        (a, b) => {
            let mut out: Vec<Path> = Vec::new();
            for a in a {
                for b in b {
                    let narrower = if a.covers(b) {
                        Some(b)
                    } else if b.covers(a) {
                        Some(a)
                    } else if a.overlaps(b) {
                        return Err(format!("`{a}` and `{b}` at once have no equivalent"));
                    } else {
                        None
                    };
                    out.extend(narrower.filter(|path| !out.iter().any(|known| known.same(path))).cloned());
                }
            }
            if out.is_empty() {
                return Ok(None);
            }
            out
        }
    };
    let headers = both(&a.headers, &b.headers, |one, another| one.eq_ignore_ascii_case(another))?;
    let query = both(&a.query, &b.query, |one, another| one == another)?;
    let notes = a.notes.iter().chain(&b.notes).cloned().collect();
    Ok(Some(Alternative { hosts, paths, methods, headers, query, notes }))
}

/// The conditions of both, where no two are about one name.
fn both(
    a: &[(String, Wanted)],
    b: &[(String, Wanted)],
    is_same: impl Fn(&str, &str) -> bool,
) -> Result<Vec<(String, Wanted)>, String> {
    let mut all = a.to_vec();
    for (name, wanted) in b {
        match all.iter().find(|(known, _)| is_same(known, name)) {
            Some((_, known)) if known != wanted => {
                return Err(format!("two values of {name} at once have no equivalent"));
            }
            Some(_) => {}
            None => all.push((name.clone(), wanted.clone())),
        }
    }
    Ok(all)
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
