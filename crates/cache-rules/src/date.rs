//! HTTP dates (RFC 9110 section 5.6.7), read for the sake of freshness: any case (RFC 9111 section 4.2), no zone but GMT, and nothing that is
//! only nearly a date.

use std::cell::Cell;

use time::{Date, Month, UtcDateTime};

const UNIX_EPOCH: Date = UtcDateTime::UNIX_EPOCH.date();

const MONTHS: [&[u8; 3]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// Seconds since the Unix epoch; negative before it. Takes IMF-fixdate, the format of RFC 850 and asctime's. `now_s` (same unit) decides the
/// century of a two-digit year: one that seems to be more than 50 years ahead is past. The day of the week must be one, but need not be right.
pub fn parse(value: &[u8], now_s: i64) -> Option<i64> {
    if let Ok(fixdate) = value.try_into() {
        return known_fixdate(fixdate).or_else(|| parse_any(value, now_s));
    }
    parse_any(value, now_s)
}

/// Length of an IMF-fixdate.
const FIXDATE: usize = "Sun, 06 Nov 1994 08:49:37 GMT".len();
/// Dates that a thread stores, a power of two.
const CACHED: usize = 8;

/// A date, and what it means.
type Cached = Cell<Option<([u8; FIXDATE], i64)>>;

thread_local! {
    /// Dates that were parsed last, each at a place of its second: all responses of a second have the same `Date`, and it is requested several times of each.
    static LAST: [Cached; CACHED] = const { [const { Cell::new(None) }; CACHED] };
}

/// An IMF-fixdate, as it is always written, means the same whatever the time is now.
fn known_fixdate(value: &[u8; FIXDATE]) -> Option<i64> {
    // Last digits of day, minute and second.
    let place = usize::from(value[6] ^ value[21] ^ value[24]) % CACHED;
    LAST.with(|last| {
        if let Some((known, seconds)) = last[place].get()
            && known == *value
        {
            return Some(seconds);
        }
        let mut lower = *value;
        lower.make_ascii_lowercase();
        let seconds = imf_fixdate(&lower)?;
        last[place].set(Some((*value, seconds)));
        Some(seconds)
    })
}

fn parse_any(value: &[u8], now_s: i64) -> Option<i64> {
    let mut lower = [0; 40];
    let text = lower.get_mut(..value.len())?;
    text.copy_from_slice(value);
    text.make_ascii_lowercase();
    imf_fixdate(text).or_else(|| asctime(text)).or_else(|| rfc850(text, now_s))
}

/// `sun, 06 nov 1994 08:49:37 gmt`
fn imf_fixdate(text: &[u8]) -> Option<i64> {
    let rest = short_day(text)?.strip_prefix(b", ")?;
    let [d1, d2, b' ', m1, m2, m3, b' ', y1, y2, y3, y4, b' ', time @ ..] = rest else { return None };
    let time = time.strip_suffix(b" gmt")?;
    seconds(number(&[*y1, *y2, *y3, *y4])?, month(&[*m1, *m2, *m3])?, number(&[*d1, *d2])?, time)
}

/// `sun nov  6 08:49:37 1994`
fn asctime(text: &[u8]) -> Option<i64> {
    let rest = short_day(text)?.strip_prefix(b" ")?;
    let [m1, m2, m3, b' ', d1, d2, b' ', time @ .., b' ', y1, y2, y3, y4] = rest else { return None };
    let day = if *d1 == b' ' { number(&[*d2])? } else { number(&[*d1, *d2])? };
    seconds(number(&[*y1, *y2, *y3, *y4])?, month(&[*m1, *m2, *m3])?, day, time)
}

/// `sunday, 06-nov-94 08:49:37 gmt`
fn rfc850(text: &[u8], now_s: i64) -> Option<i64> {
    let rest = DAYS.iter().find_map(|day| text.strip_prefix(day.as_bytes()))?.strip_prefix(b", ")?;
    let [d1, d2, b'-', m1, m2, m3, b'-', y1, y2, b' ', time @ ..] = rest else { return None };
    let time = time.strip_suffix(b" gmt")?;
    let (month, day, short) = (month(&[*m1, *m2, *m3])?, number(&[*d1, *d2])?, number(&[*y1, *y2])?);
    // The latest century that does not lie more than 50 years ahead. 29 February is no date in some of them.
    let this_year = year_of(now_s);
    let century = this_year - this_year.rem_euclid(100);
    [century + 100, century, century - 100].into_iter().find_map(|century| {
        let year = century + short;
        if year > this_year + 50 {
            return None;
        }
        let date = seconds(year, month, day, time)?;
        let limit = seconds(this_year + 50, 1, 1, b"00:00:00")? + (now_s - seconds(this_year, 1, 1, b"00:00:00")?);
        (date <= limit).then_some(date)
    })
}

fn short_day(text: &[u8]) -> Option<&[u8]> {
    let (day, rest) = text.split_at_checked(3)?;
    DAYS.iter().any(|name| name.as_bytes()[..3] == *day).then_some(rest)
}

fn month(name: &[u8; 3]) -> Option<i64> {
    MONTHS.iter().position(|month| *month == name).map(|index| index as i64 + 1)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

fn seconds(year: i64, month: i64, day: i64, time: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, u8::try_from(day).ok()?).ok()?;
    let days = i64::from(date.to_julian_day() - UNIX_EPOCH.to_julian_day());
    // A leap second is taken as the one before it: never later than what was meant.
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second.min(59))
}

/// Year of a time; one that has more than four digits is taken as 9999.
fn year_of(unix_s: i64) -> i64 {
    UtcDateTime::from_unix_timestamp(unix_s).map_or(9999, |time| i64::from(time.year()))
}
