//! The dates an event may carry: ISO 8601 or epoch milliseconds.

#[cfg(test)]
mod tests;

/// Milliseconds either side of 1970 that a date may name: the range of ECMAScript's `Date`.
const EPOCH_RANGE: f64 = 8.64e15;

/// Whether `text` names a moment: epoch milliseconds written as a JSON number, or ISO 8601 in its extended form, a date
/// alone or a date and a time with or without a zone.
pub fn is_date(text: &str) -> bool {
    if is_json_number(text) { is_epoch_millis(text) } else { is_iso(text) }
}

/// Whether a JSON number is a moment in milliseconds.
pub fn is_epoch_millis(number: &str) -> bool {
    number.parse::<f64>().is_ok_and(|millis| millis.abs() <= EPOCH_RANGE)
}

/// The grammar of RFC 8259 §6.
fn is_json_number(text: &str) -> bool {
    let mut rest = text.strip_prefix('-').unwrap_or(text).as_bytes();
    match digits(&mut rest, 1, usize::MAX) {
        Some([b'0', _, ..]) | None => return false,
        Some(_) => {}
    }
    if take(&mut rest, b".") && digits(&mut rest, 1, usize::MAX).is_none() {
        return false;
    }
    if take(&mut rest, b"eE") {
        take(&mut rest, b"+-");
        if digits(&mut rest, 1, usize::MAX).is_none() {
            return false;
        }
    }
    rest.is_empty()
}

fn is_iso(text: &str) -> bool {
    iso(&mut text.as_bytes()).is_some()
}

/// `YYYY-MM-DD`, then nothing or `T`, `t` or a space and `hh:mm`, `hh:mm:ss` or `hh:mm:ss.f` (one to nine digits, comma
/// or point), then nothing, `Z`, `±hh`, `±hhmm` or `±hh:mm`.
fn iso(rest: &mut &[u8]) -> Option<()> {
    let year = number(rest, 4, 0, 9999)?;
    need(rest, b"-")?;
    let month = number(rest, 2, 1, 12)?;
    need(rest, b"-")?;
    number(rest, 2, 1, days(year, month))?;
    if rest.is_empty() {
        return Some(());
    }
    need(rest, b"Tt ")?;
    number(rest, 2, 0, 23)?;
    need(rest, b":")?;
    number(rest, 2, 0, 59)?;
    if take(rest, b":") {
        number(rest, 2, 0, 59)?;
        if take(rest, b".,") {
            digits(rest, 1, 9)?;
        }
    }
    if take(rest, b"+-") {
        number(rest, 2, 0, 23)?;
        if take(rest, b":") || !rest.is_empty() {
            number(rest, 2, 0, 59)?;
        }
    } else {
        take(rest, b"Zz");
    }
    rest.is_empty().then_some(())
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn take(rest: &mut &[u8], any: &[u8]) -> bool {
    match rest.split_first() {
        Some((first, tail)) if any.contains(first) => {
            *rest = tail;
            true
        }
        _ => false,
    }
}

fn need(rest: &mut &[u8], any: &[u8]) -> Option<()> {
    take(rest, any).then_some(())
}

/// Takes the longest run of digits; none when it is shorter than `least` or longer than `most`.
fn digits<'a>(rest: &mut &'a [u8], least: usize, most: usize) -> Option<&'a [u8]> {
    let run = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if run < least || run > most {
        return None;
    }
    let (taken, tail) = rest.split_at(run);
    *rest = tail;
    Some(taken)
}

/// Takes exactly `width` digits that name a number from `low` to `high`.
fn number(rest: &mut &[u8], width: usize, low: u32, high: u32) -> Option<u32> {
    let (taken, tail) = rest.split_at_checked(width)?;
    let value = taken.iter().try_fold(0, |n, b| Some(n * 10 + char::from(*b).to_digit(10)?))?;
    *rest = tail;
    (low..=high).contains(&value).then_some(value)
}
