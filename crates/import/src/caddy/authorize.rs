//! `forward_auth`: in JSON a `reverse_proxy` that sends a GET to a service and goes on only if it responds with 2xx. It becomes
//! `auth.*.forward`.

use super::{Importer, placeholder};
use crate::document::{Entry, Map, Route, Value, is_own_field, is_token, text, texts};
use crate::tree::{Fields, Node};

/// What stands before the name of a field of the service's response.
const FIELD: &str = "{http.reverse_proxy.header.";

/// Whether a `reverse_proxy` lets requests go on after a response with 2xx, and sends the client any other response.
pub(super) fn is_challenge(node: &Node) -> bool {
    let handlers = node.get("handle_response").map(Node::items).unwrap_or_default();
    let [on_success] = handlers else { return false };
    let statuses = on_success.at(&["match", "status_code"]).map(Node::texts).unwrap_or_default();
    let has_more = on_success.get("match").map(Node::entries).unwrap_or_default().len() != 1;
    let is_get = node.at(&["rewrite", "method"]).and_then(Node::text) == Some("GET");
    let is_proxy = node.get("handler").and_then(Node::text) == Some("reverse_proxy");
    is_proxy && is_get && !has_more && statuses == ["2"] && taken(on_success).is_some()
}

/// The fields that the upstream gets: their names there, and in the service's response. None where the handlers do more than that.
fn taken(on_success: &Node) -> Option<Vec<(&str, &str)>> {
    let mut out: Vec<(&str, &str)> = Vec::new();
    let mut deleted = Vec::new();
    for route in on_success.get("routes").map(Node::items).unwrap_or_default() {
        if !route.get("match").is_none_or(is_of_a_field) {
            return None;
        }
        for handler in route.get("handle").map(Node::items).unwrap_or_default() {
            match handler.get("handler").and_then(Node::text)? {
                "vars" if handler.entries().len() == 1 => {}
                "headers" if handler.get("response").is_none() => {
                    for (edit, _, fields) in handler.get("request").map(Node::entries).unwrap_or_default() {
                        match edit.as_str() {
                            "delete" => deleted.extend(fields.texts()),
                            "set" => {
                                for (name, _, values) in fields.entries() {
                                    let [value] = values.items() else { return None };
                                    let from = value.text()?.strip_prefix(FIELD)?.strip_suffix('}')?;
                                    out.push((name.as_str(), from));
                                }
                            }
                            _ => return None,
                        }
                    }
                }
                _ => return None,
            }
        }
    }
    // A client's own field of a name that is copied: `copy` removes it too. Other deletions it does not express.
    let is_copied = |name: &String| out.iter().any(|(copied, _)| copied.eq_ignore_ascii_case(name));
    deleted.iter().all(is_copied).then_some(out)
}

/// Whether a matcher says no more than that the service has sent a field.
fn is_of_a_field(matchers: &Node) -> bool {
    matchers.items().iter().all(|set| match set.entries() {
        [(kind, _, inner)] if kind == "not" => inner.items().iter().all(|inner| match inner.entries() {
            [(kind, _, variables)] if kind == "vars" => {
                variables.entries().iter().all(|(name, _, values)| name.starts_with(FIELD) && values.texts() == [""])
            }
            _ => false,
        }),
        _ => false,
    })
}

impl<'n> Importer<'n> {
    /// The authenticator that calls the service. In words, why Weir cannot call it in the same way.
    pub(super) fn authorize(&mut self, route: &mut Route, node: &'n Node) -> Result<String, String> {
        let place = self.place(node);
        let fields = Fields::of(node);
        let upstreams = fields.get("upstreams").map(Node::items).unwrap_or_default();
        let [upstream] = upstreams else {
            return Err("forward_auth to several addresses has no equivalent".to_owned());
        };
        let dial = upstream.get("dial").and_then(Node::text).unwrap_or_default();
        if node.at(&["transport", "tls"]).is_some() {
            return Err("forward_auth over TLS has no equivalent: write an upstream with `tls`".to_owned());
        }
        let origin = super::proxy::target(dial, false).map_err(|why| format!("forward_auth: {dial} {why}"))?;
        if origin.starts_with("unix:") {
            return Err("forward_auth over a Unix socket has no equivalent".to_owned());
        }
        let uri = node.at(&["rewrite", "uri"]).and_then(Node::text).unwrap_or("/");
        if placeholder(uri) || !uri.starts_with('/') {
            return Err(format!("forward_auth: the path {uri} has no equivalent"));
        }
        for (edit, _, changed) in node.at(&["headers", "request"]).map(Node::entries).unwrap_or_default() {
            for (name, _, values) in changed.entries() {
                let value = values.texts().into_iter().next().unwrap_or_default();
                match (edit.as_str(), name.to_ascii_lowercase().as_str(), value.as_str()) {
                    ("set", "x-forwarded-method", "{http.request.method}")
                    | ("set", "x-forwarded-uri", "{http.request.uri}") => {}
                    // It may decide by it.
                    _ => {
                        return Err(format!(
                            "forward_auth: the service would not get the field {name} as the file says"
                        ));
                    }
                }
            }
        }
        let on_success = node.get("handle_response").map(Node::items).unwrap_or_default();
        let mut copy: Vec<String> = Vec::new();
        for (name, from) in on_success.first().and_then(|one| taken(one)).unwrap_or_default() {
            let is_refused = ["authorization", "cookie"].iter().any(|one| name.eq_ignore_ascii_case(one));
            if !is_token(name) || !is_token(from) || is_own_field(name) || is_refused {
                return Err(format!("forward_auth: Weir copies no field {name}"));
            }
            if name.eq_ignore_ascii_case(from) {
                copy.push(name.to_owned());
            } else {
                // A client must not be able to send it either.
                route.edit_header("request", "remove", name, text(""));
                let how = format!("Weir copies fields under their own names; a client's {name} is removed");
                self.doc.report.left_out(&place, format!("forward_auth: {from} as {name}"), how);
            }
        }
        let mut inner: Map = vec![("url".to_owned(), text(format!("{origin}{uri}")))];
        if !copy.is_empty() {
            inner.push(("copy".to_owned(), texts(copy)));
        }
        let how = "`auth.*.forward`; Caddy sends the service all fields of the client, Weir Authorization and Cookie: add those that it reads to `send`";
        self.doc.report.differs(&place, "forward_auth", how);
        fields.skip(&["handler", "upstreams", "rewrite", "headers", "handle_response", "trusted_proxies", "transport"]);
        fields.name_rest(self.source, &mut self.doc.report, "forward_auth");
        let key = format!("forward {inner:?}");
        if let Some(name) = self.made.get(&key) {
            return Ok(name.clone());
        }
        let name = self.doc.name("auth", dial.split(':').next().unwrap_or("sso"));
        self.made.insert(key, name.clone());
        let value = vec![("forward".to_owned(), Value::Map(inner))];
        self.doc.auth.push(Entry { name: name.clone(), place, note: "forward_auth".to_owned(), value });
        Ok(name)
    }
}
