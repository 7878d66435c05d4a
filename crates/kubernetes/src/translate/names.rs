//! Names in a configuration: 64 letters, digits, `_`, `-` and `.` at most, whatever objects are called.

use aws_lc_rs::digest::{SHA256, digest};

const MOST: usize = 64;
/// Hexadecimal digits that tell names apart whose text cannot stay.
const DIGITS: usize = 16;

/// A name for a text. It stays the text where that can be a name; else it is the beginning of it and a hash of the whole.
pub(super) fn short(text: &str) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let kept: String = text.bytes().map(|byte| if is_kept(byte) { char::from(byte) } else { '.' }).collect();
    if kept == text && kept.len() <= MOST && !kept.is_empty() && !kept.starts_with(['-', '.']) && kept != "none" {
        return kept;
    }
    let hash: String = digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let start: String = kept.trim_start_matches(['-', '.']).chars().take(MOST - DIGITS - 1).collect();
    format!("{start}.{}", &hash[..DIGITS]).trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn different_texts_have_different_names() {
        let long = "n".repeat(80);
        let texts = ["a.b.80", "a/b/80", "a/b.80", "", "none", "-a", &*long, &format!("{long}1")];
        let names: std::collections::BTreeSet<String> = texts.iter().map(|text| short(text)).collect();
        assert_eq!(names.len(), texts.len());
        assert_eq!(short("a.b.80"), "a.b.80");
        for name in names {
            assert!(name.len() <= 64 && !name.is_empty() && !name.starts_with(['-', '.']), "{name}");
        }
    }
}
