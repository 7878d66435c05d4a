//! The combined log format of Apache httpd and nginx, which most programs that evaluate logs read.
//!
//! `client - consumer [time] "method target protocol" status bytes "referer" "user agent"`. As in Apache, quotation marks and backslashes have a
//! backslash before them, and what is neither a space nor visible ASCII is `\xHH`: so no request can end its line or its field.

use std::io::Write;

use super::line::{self, Line};
use crate::observe::clock::Rfc3339;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

pub(super) fn render(line: &Line<'_>, out: &mut Vec<u8>, clock: &mut Rfc3339) {
    write!(out, "{} - ", line.client).expect("a Vec takes what is written");
    match line.consumer {
        Some(name) if !name.is_empty() => escape(out, name.as_bytes(), line::NAME, b' '),
        _ => out.push(b'-'),
    }
    date(out, clock.render(line.time_ms));
    // Nothing of an exchange that ended before its request line was complete.
    escape(out, or_dash(line.method), line::METHOD, b' ');
    out.push(b' ');
    line::shown_url(line.redaction, or_dash(line.path), |shown| escape(out, shown, line::PATH, b' '));
    if let Some(query) = line.query {
        out.push(b'?');
        line::shown_query(line.redaction, query, |shown| escape(out, shown, line::PATH, b' '));
    }
    write!(out, " {}\" {} {} \"", line.protocol, line.status, line.response_bytes)
        .expect("a Vec takes what is written");
    line::shown_url(line.redaction, or_dash(line.referer.unwrap_or_default()), |shown| {
        escape(out, shown, line::FIELD, b'"');
    });
    out.extend_from_slice(b"\" \"");
    escape(out, or_dash(line.user_agent.unwrap_or_default()), line::FIELD, b'"');
    out.extend_from_slice(b"\"\n");
}

fn or_dash(text: &[u8]) -> &[u8] {
    if text.is_empty() { b"-" } else { text }
}

/// ` [31/Dec/2024:23:59:59 +0000] "` of `2024-12-31T23:59:59.123Z`.
fn date(out: &mut Vec<u8>, rfc3339: &str) {
    let month = rfc3339[5..7].parse::<usize>().ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    let (year, month, day, time) = (&rfc3339[..4], month.unwrap_or(&"Jan"), &rfc3339[8..10], &rfc3339[11..19]);
    write!(out, " [{day}/{month}/{year}:{time} +0000] \"").expect("a Vec takes what is written");
}

/// Appends text, cut after `most` bytes; `separator` is escaped too. At most four bytes are written for one.
pub(super) fn escape(out: &mut Vec<u8>, text: &[u8], most: usize, separator: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for &byte in &text[..text.len().min(most)] {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b' '..=b'~' if byte != separator => out.push(byte),
            _ => out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]),
        }
    }
}
