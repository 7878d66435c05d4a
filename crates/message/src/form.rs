//! Names and values of a query, as forms encode them.

/// The bytes of a name or value with escapes and `+` decoded; an escape that is none stands for itself.
pub fn decoded(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match (byte, after) {
            (b'+', _) => Some(b' '),
            (b'%', [high, low, after @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = after;
                    Some(high << 4 | low)
                }
                _ => Some(byte),
            },
            _ => Some(byte),
        }
    })
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}
