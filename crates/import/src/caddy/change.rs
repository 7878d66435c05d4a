//! Handlers that let a request go on: what they change of the route that it comes to.

use super::{Importer, placeholder};
use crate::document::{self, Entry, Map, Route, Value, is_field_value, is_own_field, is_token, text, word};
use crate::pattern::encode;
use crate::traefik::middlewares::PathEdit;
use crate::tree::{Fields, Node};
use crate::units;
use crate::variables;

impl<'n> Importer<'n> {
    /// A handler that lets the request go on.
    pub(super) fn change(
        &mut self,
        route: &mut Route,
        edit: &mut PathEdit,
        node: &'n Node,
        forwards: bool,
    ) -> Result<(), String> {
        let place = self.place(node);
        match node.get("handler").and_then(Node::text).unwrap_or_default() {
            "headers" => {
                if forwards {
                    self.edits(route, node.get("request"), "request", None);
                }
                self.edits(route, node.get("response"), "response", None);
            }
            "rewrite" if forwards => self.rewrite(route, edit, node)?,
            "request_body" => {
                if let Some(bytes) = node.get("max_size").and_then(Node::whole).filter(|&bytes| bytes > 0) {
                    route.set("body", word(units::size(bytes)));
                    self.doc.report.exact(&place, "request_body", "`body` of the route");
                }
            }
            "authentication" => {
                let providers = node.get("providers").map(Node::entries).unwrap_or_default();
                let [(provider, _, basic)] = providers else {
                    return Err("authentication without exactly one provider has no equivalent".to_owned());
                };
                if provider != "http_basic" {
                    return Err(format!("authentication by {provider} has no equivalent"));
                }
                for account in basic.get("accounts").map(Node::items).unwrap_or_default() {
                    let name = account.get("username").and_then(Node::text).unwrap_or_default();
                    let place = self.place(account);
                    let how = "no password is copied: write the line NAME:HASH into the file htpasswd, looked for where Weir is started";
                    self.doc.report.left_out(&place, format!("password of {name}"), how);
                }
                let mut inner: Map = vec![("file".to_owned(), text("htpasswd"))];
                if let Some(realm) =
                    basic.get("realm").and_then(Node::text).filter(|realm| is_field_value(realm) && !realm.is_empty())
                {
                    inner.push(("realm".to_owned(), text(realm)));
                }
                inner.push(("forward".to_owned(), text("token")));
                let key = format!("auth {inner:?}");
                let name = match self.made.get(&key) {
                    Some(name) => name.clone(),
                    None => {
                        let name = self.doc.name("auth", "users");
                        self.made.insert(key, name.clone());
                        let value = vec![("basic".to_owned(), Value::Map(inner))];
                        self.doc.auth.push(Entry {
                            name: name.clone(),
                            place: place.clone(),
                            note: "authentication".to_owned(),
                            value,
                        });
                        name
                    }
                };
                require(route, &name);
            }
            "reverse_proxy" => {
                let name = self.authorize(route, node)?;
                require(route, &name);
            }
            "encode" if forwards => self.encode(route, node),
            _ => {}
        }
        Ok(())
    }

    /// `encode`: compression of responses.
    fn encode(&mut self, route: &mut Route, node: &'n Node) {
        let encodings = node.get("encodings").map(Node::entries).unwrap_or_default();
        let there = |name: &str| encodings.iter().find(|(known, _, _)| known == name);
        let mut codings: Vec<String> = node.get("prefer").map(Node::texts).unwrap_or_default();
        codings.extend(encodings.iter().map(|(name, _, _)| name.clone()));
        codings.retain(|name| matches!(name.as_str(), "zstd" | "br" | "gzip") && there(name).is_some());
        let mut codings: Vec<&str> = codings.iter().map(String::as_str).collect();
        let mut seen = Vec::new();
        codings.retain(|name| {
            !seen.contains(name) && {
                seen.push(*name);
                true
            }
        });
        let place = self.place(node);
        if codings.is_empty() {
            self.doc.report.left_out(&place, "encode", "none of its codings is zstd, br or gzip");
            return;
        }
        let mut levels: Vec<(&str, u64)> = Vec::new();
        // Levels of zstd have names in Caddy.
        for name in codings.iter().copied().filter(|name| *name != "zstd") {
            let options = there(name).map(|(_, _, options)| options);
            if let Some(level) = options.and_then(|options| options.get("level")).and_then(Node::whole) {
                levels.push((name, level));
            }
        }
        let min = node.get("minimum_length").and_then(Node::whole).filter(|&min| min > 0).unwrap_or(512);
        route.set("compress", document::compression(&codings, min, &[], &levels));
        let how = "`compress`, of the media types of Weir's own list; responses with `Set-Cookie` stay as they are";
        self.doc.report.differs(&place, "encode", how);
    }

    fn rewrite(&mut self, route: &Route, edit: &mut PathEdit, node: &'n Node) -> Result<(), String> {
        let place = self.place(node);
        let fields = Fields::of(node);
        fields.skip(&["handler"]);
        if let Some(prefix) = fields.text("strip_path_prefix") {
            edit.strip(&[prefix.to_owned()], route).map_err(|why| format!("strip_path_prefix: {why}"))?;
        }
        if let Some(uri) = fields.text("uri") {
            let rest =
                ["{http.request.uri}", "{http.request.uri.path}?{http.request.uri.query}", "{http.request.uri.path}"];
            match rest.iter().find_map(|rest| uri.strip_suffix(rest)) {
                Some(before) if !placeholder(before) => {
                    edit.now = format!("{}{}", encode(before.trim_end_matches('/'))?, edit.now);
                }
                None if !placeholder(uri) && !uri.contains('?') && uri.starts_with('/') => {
                    edit.whole = Some(encode(uri)?);
                }
                _ => return Err(format!("the rewrite to {uri} has no equivalent")),
            }
        }
        for key in ["strip_path_suffix", "uri_substring", "path_regexp", "method", "query"] {
            if fields.get(key).is_some() {
                return Err(format!("{key} of a rewrite has no equivalent"));
            }
        }
        self.doc.report.exact(&place, "rewrite", "`rewrite` of the route");
        Ok(())
    }

    /// Edits of header fields; `authority` is what the placeholder of the target stands for.
    pub(super) fn edits(&mut self, route: &mut Route, node: Option<&'n Node>, side: &str, authority: Option<&str>) {
        for (edit, line, fields) in node.map(Node::entries).unwrap_or_default() {
            let place = self.source.at(*line);
            if edit == "delete" {
                for name in fields.texts() {
                    if is_token(&name) && !is_own_field(&name) && !name.contains('*') {
                        route.edit_header(side, "remove", &name, text(""));
                        self.doc.report.exact(&place, format!("{side} field {name}: delete"), "the field is removed");
                    } else {
                        self.doc.report.left_out(
                            &place,
                            format!("{side} field {name}: delete"),
                            "is not a field that Weir removes",
                        );
                    }
                }
                continue;
            }
            if edit == "deferred" || edit == "require" {
                continue;
            }
            for (name, line, values) in fields.entries() {
                let place = self.source.at(*line);
                let what = format!("{side} field {name}: {edit}");
                let values = values.texts();
                let target = [
                    "{http.reverse_proxy.upstream.hostport}",
                    "{http.reverse_proxy.upstream.host}:{http.reverse_proxy.upstream.port}",
                ];
                match (edit.as_str(), values.as_slice()) {
                    ("set", [value]) if name.eq_ignore_ascii_case("host") && side == "request" => {
                        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
                        if value == "{http.request.host}" || value == "{http.request.hostport}" {
                            self.doc.report.exact(&place, what, "`Host` passes");
                        } else if let (true, Some(authority)) = (target.contains(&value.as_str()), authority) {
                            route.set_in("rewrite", "host", text(authority));
                            self.doc.report.exact(&place, what, "`rewrite.host`: that of the first target");
                        } else if !value.is_empty() && value.chars().all(plain) {
                            route.set_in("rewrite", "host", text(value));
                            self.doc.report.exact(&place, what, "`rewrite.host`");
                        } else {
                            self.doc.report.left_out(&place, what, "`Host` passes as the client sent it");
                        }
                    }
                    ("set", [value]) if name.eq_ignore_ascii_case("x-request-id") && value == "{http.request.uuid}" => {
                        self.doc.report.exact(&place, what, "Weir's request id, under the same name");
                    }
                    ("set" | "add", [value])
                        if is_token(name) && !is_own_field(name) && is_field_value(value) && !placeholder(value) =>
                    {
                        route.edit_header(side, edit, name, text(value));
                        self.doc.report.exact(&place, what, "`headers` of the route");
                    }
                    ("set" | "add", [value])
                        if is_token(name)
                            && !is_own_field(name)
                            && is_field_value(value)
                            && variables::of_caddy(value).is_some() =>
                    {
                        let value = variables::of_caddy(value).unwrap_or_default();
                        route.edit_header(side, edit, name, Value::Template(value));
                        self.doc.report.exact(&place, what, "`headers` of the route");
                    }
                    _ => self.doc.report.left_out(
                        &place,
                        what,
                        "Weir writes this field itself, or the value has no equivalent",
                    ),
                }
            }
        }
    }
}

/// Adds an authenticator to a route: all of them have to accept the request.
fn require(route: &mut Route, name: &str) {
    let before = route.keys.iter().find(|(key, _)| key == "auth").map(|(_, value)| value.clone());
    let mut all = match before {
        Some(Value::List(names)) => match names.as_slice() {
            [Value::List(all)] => all.clone(),
            _ => names,
        },
        _ => Vec::new(),
    };
    if !all.contains(&text(name)) {
        all.push(text(name));
    }
    let value = if all.len() == 1 { Value::List(all) } else { Value::List(vec![Value::List(all)]) };
    route.set("auth", value);
}
