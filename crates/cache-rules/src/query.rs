//! The query of a URL as part of a key.

use config::CacheQuery;
use message::form::decoded;

/// Most parameters that are sorted; a longer query is taken as it came.
const MAX_PARAMETERS: usize = 64;

/// Appends what counts of a query, with its `?`; nothing if nothing does.
///
/// Names are compared as an origin reads them, with escapes and `+` decoded, so that `%61=2` cannot hide beside `a=1`. Parameters of one name keep
/// their order. A query with a `;`, which some origins read as `&`, and one of more than 64 parameters count as they came.
pub fn write(which: &CacheQuery, query: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(query) = query else { return };
    let mut parameters = [&b""[..]; MAX_PARAMETERS];
    let count = match which {
        CacheQuery::All => None,
        _ if memchr::memchr(b';', query).is_some() => None,
        CacheQuery::Sorted => collect(query, &mut parameters, |_| true),
        CacheQuery::Only(names) => {
            collect(query, &mut parameters, |name| names.iter().any(|wanted| decoded(name).eq(wanted.bytes())))
        }
    };
    let Some(count) = count else {
        out.push(b'?');
        out.extend_from_slice(query);
        return;
    };
    let parameters = &mut parameters[..count];
    parameters.sort_by(|a, b| decoded(name(a)).cmp(decoded(name(b))));
    for (index, parameter) in parameters.iter().enumerate() {
        out.push(if index == 0 { b'?' } else { b'&' });
        out.extend_from_slice(parameter);
    }
}

/// Whether a query has a parameter of this name, as an origin reads it.
pub fn has(query: &[u8], wanted: &str) -> bool {
    query.split(|&byte| byte == b'&').any(|parameter| decoded(name(parameter)).eq(wanted.bytes()))
}

/// Collects the parameters that count, how many; `None` if they are too many. Empty ones never count.
fn collect<'a>(
    query: &'a [u8],
    parameters: &mut [&'a [u8]; MAX_PARAMETERS],
    counts: impl Fn(&[u8]) -> bool,
) -> Option<usize> {
    let mut count = 0;
    for parameter in query.split(|&byte| byte == b'&') {
        if !parameter.is_empty() && counts(name(parameter)) {
            *parameters.get_mut(count)? = parameter;
            count += 1;
        }
    }
    Some(count)
}

fn name(parameter: &[u8]) -> &[u8] {
    &parameter[..memchr::memchr(b'=', parameter).unwrap_or(parameter.len())]
}
