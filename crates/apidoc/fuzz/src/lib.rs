//! What every target does with its bytes: read them within small limits, write what was read in every format, read that.

use apidoc::{Format, Limits, Syntax};
use std::collections::BTreeMap;

/// Reads, writes and reads again. The input may refer to itself and to two other documents.
pub fn exercise(bytes: &[u8]) {
    let source = BTreeMap::from([
        ("input".to_owned(), bytes.to_vec()),
        ("other.yaml".to_owned(), b"a: {$ref: 'input#/a'}\ntypes: {T: string}\n".to_vec()),
        ("text.txt".to_owned(), b"{\"a\": 1}".to_vec()),
    ]);
    let Ok(read) = apidoc::read(&source, "input", &Limits::default()) else { return };
    for format in Format::ALL {
        let written = apidoc::write(&read.api, format, Syntax::Yaml);
        let _ = apidoc::read_bytes("written", written.text.as_bytes());
    }
}
