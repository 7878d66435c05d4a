//! `Vary`: which request fields select among the responses of one URL, and their values in one form (RFC 9111 section 4.1).

use h1::Known;

use super::lines::Lines;
use super::list::{self, trim};

/// Most fields that a response may vary on.
pub const MAX_NAMES: usize = 16;

/// No later request can be known to match: `*`; a field that the gateway writes for each client (so that what the upstream saw is not
/// what a later request shows); no valid name; or more than [`MAX_NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeverMatches;

/// Names of the fields that a response varies on.
pub fn names<'a>(response: impl Lines<'a>) -> impl Iterator<Item = &'a [u8]> {
    response.values(Known::Vary).flat_map(list::elements)
}

/// Whether responses that vary so can be distinguished.
///
/// # Errors
/// When they cannot.
pub fn check<'a>(response: impl Lines<'a>) -> Result<(), NeverMatches> {
    let mut count = 0;
    for name in names(response) {
        count += 1;
        let differs_unseen = matches!(Known::of(name), Known::XForwardedFor | Known::Forwarded | Known::XRequestId);
        if name == b"*" || !list::is_token(name) || differs_unseen || count > MAX_NAMES {
            return Err(NeverMatches);
        }
    }
    Ok(())
}

/// Appends the names of the selecting fields: lower case, sorted, each once, separated by commas. Nothing is appended for a response that
/// suits every request.
///
/// # Errors
/// As [`check`].
pub fn write_names<'a>(response: impl Lines<'a>, out: &mut Vec<u8>) -> Result<(), NeverMatches> {
    check(response)?;
    let mut names: Vec<Vec<u8>> = self::names(response).map(<[u8]>::to_ascii_lowercase).collect();
    names.sort_unstable();
    names.dedup();
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(name);
    }
    Ok(())
}

/// Appends the secondary key: what a request says in the fields that `names` ([`write_names`]) lists. Two requests select the same response if
/// only if their secondary keys are equal. A field that is absent equals only an absent one.
pub fn write_secondary<'a>(names: &[u8], request: impl Lines<'a>, out: &mut Vec<u8>) {
    for name in list::elements(names) {
        let mut values = request.named(name).peekable();
        if values.peek().is_none() {
            out.push(0);
            continue;
        }
        out.push(1);
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        match name {
            b"accept-encoding" => write_codings(request, out),
            b"accept-language" | b"accept-charset" => write_list(values, out, true),
            b"accept" => write_list(values, out, false),
            // Nothing is known of its grammar: only lines are joined (RFC 9110 section 5.3).
            _ => {
                for (index, value) in values.enumerate() {
                    if index > 0 {
                        out.extend_from_slice(b", ");
                    }
                    out.extend_from_slice(value);
                }
            }
        }
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    write_aliases(names, request, out);
}

/// Values of fields that CGI and its heirs take for those which are named: an upstream that does responded to them too.
fn write_aliases<'a>(names: &[u8], request: impl Lines<'a>, out: &mut Vec<u8>) {
    for name in list::elements(names) {
        for line in request.all().filter(|line| Known::is_alias(line.name, name) && !line.is(name)) {
            for text in [line.name, line.value] {
                out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                out.extend_from_slice(text);
            }
        }
    }
}

/// A content coding with its weight in thousandths.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Coding<'a> {
    name: &'a [u8],
    weight: u16,
}

/// `Accept-Encoding`: order, case, white space, the way weights are written and old names mean nothing (RFC 9110 section 12.5.3).
fn write_codings<'a>(request: impl Lines<'a>, out: &mut Vec<u8>) {
    let mut codings = [Coding { name: b"", weight: 0 }; 16];
    let mut count = 0;
    for element in request.values(Known::AcceptEncoding).flat_map(list::elements) {
        match (codings.get_mut(count), coding(element)) {
            (Some(slot), Some(coding)) => *slot = coding,
            // Not what it should be: then only itself is like it.
            _ => return write_list(request.values(Known::AcceptEncoding), out, true),
        }
        count += 1;
    }
    let codings = &mut codings[..count];
    codings.sort_unstable_by(|a, b| {
        let lower = |coding: &Coding<'a>| coding.name.iter().map(u8::to_ascii_lowercase);
        lower(a).cmp(lower(b)).then(a.weight.cmp(&b.weight))
    });
    for coding in codings {
        out.extend(coding.name.iter().map(u8::to_ascii_lowercase));
        out.push(b'=');
        out.extend_from_slice(&coding.weight.to_be_bytes());
    }
}

fn coding(element: &[u8]) -> Option<Coding<'_>> {
    let mut parts = element.split(|&byte| byte == b';').map(trim);
    let name = parts.next().filter(|name| list::is_token(name))?;
    let weight = match parts.next() {
        None => 1000,
        Some(parameter) => {
            let (key, value) = parameter.split_at_checked(2)?;
            if !key.eq_ignore_ascii_case(b"q=") {
                return None;
            }
            thousandths(value)?
        }
    };
    // RFC 9110 section 8.4.1: recipients ought to treat these as equivalent.
    let name = match name {
        [b'x' | b'X', b'-', rest @ ..]
            if rest.eq_ignore_ascii_case(b"gzip") || rest.eq_ignore_ascii_case(b"compress") =>
        {
            rest
        }
        _ => name,
    };
    parts.next().is_none().then_some(Coding { name, weight })
}

/// A weight (RFC 9110 section 12.4.2): 0 to 1 with up to three digits behind the point.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] => (whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0') * 1000;
    for (digit, unit) in fraction.iter().zip([100, 10, 1]) {
        if !digit.is_ascii_digit() {
            return None;
        }
        weight += u16::from(digit - b'0') * unit;
    }
    (weight <= 1000).then_some(weight)
}

/// A list of values with parameters: white space, empty elements and the case of what is known to have none mean nothing. Their order is kept:
/// servers use it among equals.
fn write_list<'a>(values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>, any_case: bool) {
    let start = out.len();
    for value in values {
        let mut rest = value;
        let mut is_first_part = true;
        if out.len() > start {
            out.push(b',');
        }
        while let Some(&byte) = rest.first() {
            let length = match byte {
                b'"' => list::quoted_length(rest).unwrap_or(rest.len()),
                _ => 1,
            };
            let (part, after) = rest.split_at(length);
            rest = after;
            match byte {
                b' ' | b'\t' => {
                    // Between two words it would be part of something unknown.
                    let is_between = out.last().is_some_and(|&before| out.len() > start && !is_separator(before))
                        && trim(rest).first().is_some_and(|&next| !is_separator(next));
                    if is_between && out.last() != Some(&b' ') {
                        out.push(b' ');
                    }
                }
                b',' => {
                    is_first_part = true;
                    if out.len() > start && out.last() != Some(&b',') {
                        out.push(b',');
                    }
                }
                _ => {
                    is_first_part &= byte != b';';
                    if byte != b'"' && (any_case || is_first_part) {
                        out.extend(part.iter().map(u8::to_ascii_lowercase));
                    } else {
                        out.extend_from_slice(part);
                    }
                }
            }
        }
        if out.len() > start && out.last() == Some(&b',') {
            out.pop();
        }
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b';' | b'=')
}
