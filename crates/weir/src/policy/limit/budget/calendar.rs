//! Where windows begin: multiples of a length, days and months of the (proleptic Gregorian) calendar.

use time::{Date, Month, UtcDateTime};

use crate::config::BudgetWindow;

const UNIX_EPOCH: Date = UtcDateTime::UNIX_EPOCH.date();
const DAY_US: u64 = 86_400_000_000;
const MINUTE_US: i64 = 60_000_000;

/// Beginnings of four windows in microseconds since 1970: the one before `now_us`, the one that it lies in, and the two after that.
pub(super) fn beginnings(window: BudgetWindow, now_us: u64) -> [u64; 4] {
    match window {
        BudgetWindow::First(length) | BudgetWindow::Aligned(length) => {
            let length = u64::try_from(length.as_micros()).unwrap_or(u64::MAX).max(1);
            multiples(length, now_us)
        }
        BudgetWindow::Day(minutes) => shifted(minutes, now_us, |local| multiples(DAY_US, local)),
        BudgetWindow::Month(minutes) => shifted(minutes, now_us, |local| {
            let number = month_number(local / DAY_US);
            [number.saturating_sub(1), number, number + 1, number + 2]
                .map(|number| first_day(number).saturating_mul(DAY_US))
        }),
    }
}

fn multiples(length: u64, now: u64) -> [u64; 4] {
    let number = now / length;
    [number.saturating_sub(1), number, number + 1, number + 2].map(|number| number.saturating_mul(length))
}

/// Calculates with the clock on the wall.
fn shifted(minutes: i32, now_us: u64, of: impl Fn(u64) -> [u64; 4]) -> [u64; 4] {
    let shift = i64::from(minutes) * MINUTE_US;
    of(now_us.saturating_add_signed(shift)).map(|begin| begin.saturating_add_signed(-shift))
}

/// Months since the beginning of year 0 until a day since 1970; days after the year 9999 lie in its December.
fn month_number(days: u64) -> u64 {
    let day = i32::try_from(days).ok().and_then(|days| UNIX_EPOCH.to_julian_day().checked_add(days));
    let date = day.and_then(|day| Date::from_julian_day(day).ok()).unwrap_or(Date::MAX);
    u64::from(date.year().unsigned_abs()) * 12 + u64::from(u8::from(date.month())) - 1
}

/// Days from 1970 to the first of a month, which is counted as [`month_number`] does; 0 for a month before 1970.
fn first_day(month_number: u64) -> u64 {
    let (year, month) = (month_number / 12, (month_number % 12 + 1) as u8);
    let date = i32::try_from(year).ok().zip(Month::try_from(month).ok());
    let date = date.and_then(|(year, month)| Date::from_calendar_date(year, month, 1).ok()).unwrap_or(Date::MAX);
    u64::try_from(date.to_julian_day() - UNIX_EPOCH.to_julian_day()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
