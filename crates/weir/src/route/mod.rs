//! From a request to the route that takes it.
pub mod host;
pub mod path;
use std::borrow::Cow;
use crate::config::*;
pub struct Found { pub route: RouteId, pub fixed_len: usize }
pub enum Lookup { Found(Found), NotFound, MethodNotAllowed(String) }
pub struct Table { paths: Vec<(String, bool)> }
#[derive(Debug)]
pub struct Refusal;
impl Refusal { pub fn text(&self) -> &'static str { "" } }
pub fn normalise(path: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> { Ok(Cow::Borrowed(path)) }
impl Table {
    pub fn new(config: &Config) -> Self { Table { paths: config.routes.iter().map(|r| match &r.matcher.path { PathPattern::Exact(p) => (p.to_string(), true), PathPattern::Prefix(p) => (p.to_string(), false), _ => (String::new(), true) }).collect() } }
    pub fn lookup<'a>(&self, _host: &[u8], path: &[u8], _method: &[u8], _h: impl Fn(&str) -> Option<&'a [u8]>) -> Lookup {
        for (i, (p, exact)) in self.paths.iter().enumerate() {
            if (*exact && path == p.as_bytes()) || (!*exact && path.starts_with(p.as_bytes())) { return Lookup::Found(Found { route: RouteId(i), fixed_len: p.len() }); }
        }
        Lookup::NotFound
    }
}
pub fn write_target(out: &mut Vec<u8>, base: &str, _rewrite: &Rewrite, path: &[u8], _fixed: usize, query: Option<&[u8]>) {
    out.extend_from_slice(base.as_bytes()); out.extend_from_slice(path);
    if let Some(q) = query { out.push(b'?'); out.extend_from_slice(q); }
}
pub fn redirect_location(out: &mut Vec<u8>, r: &Redirect, _path: &[u8], _fixed: usize, _q: Option<&[u8]>) { out.extend_from_slice(r.to.as_bytes()); }
