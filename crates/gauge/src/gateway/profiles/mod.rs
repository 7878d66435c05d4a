//! What each gateway's configuration says for a profile: a file for each gateway, whose `additions` is the table of what it can do, with a small function
//! for each profile.

pub(super) mod caddy;
pub(super) mod envoy;
pub(super) mod haproxy;
pub(super) mod kong;
pub(super) mod krakend;
pub(super) mod nginx;
pub(super) mod traefik;
pub(super) mod weir;

use super::{Additions, File};

/// Why something is not there: nobody has written it.
const NOT_YET: &str = "its adapter does not configure it yet";

/// What a gateway, or its adapter, says to a profile.
type Adapted = Result<Additions, &'static str>;

/// Its listener takes HTTP/2 too.
fn listens(listen: &'static str) -> Adapted {
    Ok(Additions { listen, ..Additions::default() })
}

/// Nothing more than it does anyway.
fn nothing_more() -> Adapted {
    Ok(Additions::default())
}

/// A file of these lines.
fn file(path: &str, lines: impl Iterator<Item = String>) -> File {
    File { path: path.to_owned(), text: lines.collect() }
}

/// A field's name with `-` or `_` between its words, since many servers take these for one; itself first.
fn spellings(header: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for c in header.chars() {
        let copies = if c == '-' { all.clone() } else { Vec::new() };
        all.iter_mut().for_each(|one| one.push(c));
        all.extend(copies.into_iter().map(|one| one + "_"));
    }
    all
}
