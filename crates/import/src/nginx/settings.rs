//! What a block inherits.

use std::collections::HashMap;

use super::parse::Directive;

/// The directives that hold in a block, by name; `allow` and `deny` are one, because their order counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings<'d> {
    by_name: HashMap<&'d str, Vec<&'d Directive>>,
}

/// What belongs to the block in which it stands only.
const OWN: [&str; 18] = [
    "server",
    "location",
    "upstream",
    "if",
    "return",
    "rewrite",
    "set",
    "proxy_pass",
    "listen",
    "server_name",
    "types",
    "try_files",
    "map",
    "split_clients",
    "geo",
    "limit_req_zone",
    "limit_conn_zone",
    "limit_except",
];

impl<'d> Settings<'d> {
    /// Those of a block inside of one with these.
    pub(super) fn inside(&self, block: &'d [Directive]) -> Settings<'d> {
        let mut own: HashMap<&'d str, Vec<&'d Directive>> = HashMap::new();
        for directive in block.iter().filter(|directive| !OWN.contains(&directive.name.as_str())) {
            let name = match directive.name.as_str() {
                "allow" | "deny" => "allow",
                name => name,
            };
            own.entry(name).or_default().push(directive);
        }
        let mut by_name = self.by_name.clone();
        by_name.extend(own);
        Settings { by_name }
    }

    /// All directives of a name.
    pub(super) fn all(&self, name: &str) -> &[&'d Directive] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The one that holds.
    pub(super) fn one(&self, name: &str) -> Option<&'d Directive> {
        self.all(name).last().copied()
    }

    /// Its first argument.
    pub(super) fn word(&self, name: &str) -> Option<&'d str> {
        self.one(name).map(|directive| directive.arg(0))
    }

    /// Whether it is there and says `on`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.word(name) == Some("on")
    }
}
