//! A distinguished name as text (RFC 4514): two names with the same text are the same name, which joining the parts does not give.

use x509_parser::prelude::{AttributeTypeAndValue, X509Name};

use super::hex;

/// The parts from the most special to the most general one.
pub(super) fn text(name: &X509Name<'_>) -> String {
    let part = |attributes: Vec<String>| attributes.join("+");
    let mut parts: Vec<String> = name.iter().map(|part_of| part(part_of.iter().map(attribute).collect())).collect();
    parts.reverse();
    parts.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type().to_id_string();
    match (short_name(&oid), attribute.as_str()) {
        (Some(name), Ok(value)) => format!("{name}={}", escaped(value)),
        // Section 2.4: what has no short name or is no text is given as its encoding; the tag keeps encodings apart.
        (name, _) => {
            let value = attribute.attr_value();
            let tag = value.header.tag().0;
            format!("{}=#{tag:02x}{}", name.unwrap_or(&oid), hex(attribute.as_slice()))
        }
    }
}

/// The table of section 3.
fn short_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2.5.4.3" => "CN",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "STREET",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        _ => return None,
    })
}

/// Section 2.4.
fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (position, one) in value.chars().enumerate() {
        let is_edge_blank = one == ' ' && (position == 0 || position == last);
        if is_edge_blank || (one == '#' && position == 0) || matches!(one, '"' | '+' | ',' | ';' | '<' | '>' | '\\') {
            text.push('\\');
            text.push(one);
        } else if one.is_control() {
            let mut bytes = [0; 4];
            one.encode_utf8(&mut bytes).bytes().for_each(|byte| text.push_str(&format!("\\{byte:02X}")));
        } else {
            text.push(one);
        }
    }
    text
}
