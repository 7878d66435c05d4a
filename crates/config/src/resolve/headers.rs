//! Header edits, and which fields nobody may edit.

use std::sync::Arc;

use h1::Known;

use super::Resolver;
use crate::problem::Origin;
use crate::raw;
use crate::raw::shape::{Map, Spanned};
use crate::raw::text::{FieldName, FieldValue};
use crate::{Edits, HeaderEdits, Part, Template, Variable, parts};

/// Fields that say where a message ends or what happens to its connection: the gateway writes them from what it knows.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "http2-settings",
];

/// Request fields that the gateway writes from what it knows of the client.
const FORWARDING: [&str; 3] = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"];

/// Whether a field may be set, added or removed on any message.
pub(super) fn may_edit(name: &str) -> Result<(), String> {
    // Some servers take `Content_Length` for `Content-Length`.
    let is_one_of = |names: &[&str]| names.iter().any(|known| Known::is_alias(name.as_bytes(), known.as_bytes()));
    if is_one_of(&FRAMING) {
        return Err(format!(
            "`{name}` belongs to the connection; the gateway writes it itself, so that both sides agree where a message ends"
        ));
    }
    if name.eq_ignore_ascii_case("host") {
        return Err("`Host` is changed with `rewrite: {host: NAME}`".to_owned());
    }
    if is_one_of(&FORWARDING) {
        let name = name.to_ascii_lowercase();
        return Err(format!("`{name}` is written by the gateway; `trusted_proxies` says whose value is kept"));
    }
    Ok(())
}

/// Whether a route may set or add a field.
fn may_set(name: &str) -> Result<(), String> {
    may_edit(name)?;
    if Known::is_alias(name.as_bytes(), b"x-weir-mirror") {
        return Err(format!("`{name}` is written by `mirror`, which marks its copies with it"));
    }
    Ok(())
}

impl Resolver<'_> {
    pub(super) fn header_edits(&mut self, raw: &raw::HeaderEdits) -> HeaderEdits {
        let request_id = self.file.request_id.0.to_ascii_lowercase();
        let used = |name: &Spanned<FieldName>| name.0.eq_ignore_ascii_case(&request_id);
        let names = raw.request.remove.iter().filter(|&name| used(name)).map(|name| name.origin);
        let keys = raw.request.set.iter().chain(raw.request.add.iter());
        let keys = keys.filter(|(name, _)| name.eq_ignore_ascii_case(&request_id));
        for origin in names.chain(keys.map(|(name, _)| name.origin)).collect::<Vec<_>>() {
            let message = "the request id is written by the gateway; `request_id` names its field";
            self.problem(origin, message);
        }
        if self.file.server.return_request_id {
            let names = raw.response.remove.iter().filter(|&name| used(name)).map(|name| name.origin);
            let keys = raw.response.set.iter().chain(raw.response.add.iter());
            let keys = keys.filter(|(name, _)| name.eq_ignore_ascii_case(&request_id));
            for origin in names.chain(keys.map(|(name, _)| name.origin)).collect::<Vec<_>>() {
                let message = "every response carries the request id; `server: {return_request_id: false}` leaves the field to the upstream and to routes";
                self.problem(origin, message);
            }
        }
        let edits = HeaderEdits { request: self.edits(&raw.request), response: self.edits(&raw.response) };
        for template in &edits.response.templates {
            let says_nothing = |part: &Part| match part {
                Part::Variable(Variable::Upstream) => Some("which upstream it came from"),
                Part::Variable(variable) if variable.is_of_identity() => Some("who sent the request"),
                _ => None,
            };
            if let Some(what) = template.parts.iter().find_map(says_nothing) {
                let known = raw.response.set.iter().chain(raw.response.add.iter());
                let origin = known.map(|(name, _)| name).find(|name| name.eq_ignore_ascii_case(&template.name));
                let message = format!("`{}` of a response cannot say {what}", template.name);
                self.problem(origin.map_or(Origin::Nowhere, |name| name.origin), message);
            }
        }
        edits
    }

    fn edits(&mut self, raw: &raw::Edits) -> Edits {
        for name in &raw.remove {
            self.check(name.origin, may_edit(&name.0));
        }
        let mut templates = Vec::new();
        let set = self.fields(&raw.set, &mut templates);
        let replaced: Vec<Arc<str>> = templates.iter().map(|one| one.name.to_ascii_lowercase().into()).collect();
        let add = self.fields(&raw.add, &mut templates);
        let removed = raw.remove.iter().map(|name| name.0.to_ascii_lowercase().into());
        let edits = Edits { set, add, remove: removed.chain(replaced).collect(), templates };
        for (name, _) in raw.set.iter() {
            let same = |other: &&Spanned<String>| other.eq_ignore_ascii_case(name);
            let removed = raw.remove.iter().any(|removed| removed.0.eq_ignore_ascii_case(name));
            if raw.add.iter().any(|(added, _)| same(&added)) || removed {
                let message = format!("`{}` is set, and added or removed too; one of them", name.value);
                self.problem(name.origin, message);
            }
        }
        edits
    }

    /// The fields with fixed values; those with variables go to `templates`.
    fn fields(&mut self, raw: &Map<FieldValue>, templates: &mut Vec<Template>) -> Vec<(Arc<str>, Arc<str>)> {
        for (index, (name, _)) in raw.iter().enumerate() {
            self.check(name.origin, name.parse::<FieldName>().and_then(|name| may_set(&name.0)));
            if raw.iter().take(index).any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
                let message = format!("`{}` occurs twice; names ignore case", name.value);
                self.problem(name.origin, message);
            }
        }
        let mut fixed = Vec::new();
        for (name, value) in raw.iter() {
            let parts = parts(&value.0).unwrap_or_else(|message| {
                self.problem(name.origin, message);
                Vec::new()
            });
            match &parts[..] {
                [Part::Text(text)] => fixed.push((name.as_str().into(), text.clone())),
                _ => templates.push(Template { name: name.as_str().into(), parts }),
            }
        }
        fixed
    }
}
