//! Names in a configuration: 64 letters, digits, `_`, `-` and `.` at most, whatever objects are called.

use aws_lc_rs::digest::{SHA256, digest};

use crate::objects::Key;

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
    let hash = hash(text);
    let start: String = kept.trim_start_matches(['-', '.']).chars().take(MOST - DIGITS - 1).collect();
    format!("{start}.{}", &hash[..DIGITS]).trim_start_matches('.').to_owned()
}

/// Bytes of a name of a Service, and of a value of a label.
const MOST_LABEL: usize = 63;

/// The name of the Service of a gateway: the same for all processes of a controller, another for each gateway.
pub(super) fn service(controller: &str, gateway: &Key) -> String {
    const DIGITS: usize = 10;
    let text = format!("weir-{}-{}", gateway.namespace, gateway.name).replace('.', "-");
    let start: String = text.chars().take(MOST_LABEL - DIGITS - 1).collect();
    format!("{}-{}", start.trim_end_matches('-'), &hash(&format!("{controller} {gateway}"))[..DIGITS])
}

/// Whether a text can be the value of a label.
pub(super) fn is_label(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MOST_LABEL
        && is_end(text.bytes().next())
        && is_end(text.bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Hexadecimal digits that tell texts apart.
pub(super) fn hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Key, service, short};

    #[test]
    fn services_have_names_that_a_service_can_have() {
        let key = |namespace: &str, name: &str| Key::new(namespace, name);
        let long = "n".repeat(63);
        let gateways = [key("a-b", "c"), key("a", "b-c"), key("a", "b.c"), key(&long, &"g.".repeat(120))];
        let mut names: Vec<String> = gateways.iter().map(|gateway| service("weir.dev/gateway", gateway)).collect();
        names.push(service("example.com/gateway", &gateways[0]));
        for name in &names {
            let is_kept = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(name.len() <= 63 && name.starts_with("weir-") && name.bytes().all(is_kept), "{name}");
        }
        let all: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(all.len(), names.len());
    }

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
