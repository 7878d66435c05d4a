//! Where windows begin: multiples of a length, days and months of the calendar (the proleptic Gregorian one, by the algorithms of Howard
//! Hinnant's `days_from_civil`).

use crate::config::BudgetWindow;

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
            let (year, month, _) = civil(local / DAY_US);
            let number = year * 12 + u64::from(month) - 1;
            [number.saturating_sub(1), number, number + 1, number + 2]
                .map(|number| days(number / 12, (number % 12 + 1) as u32).saturating_mul(DAY_US))
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

/// Year, month and day of a day since 1970.
pub(super) fn civil(days: u64) -> (u64, u32, u32) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month as u32, day as u32)
}

/// Days from 1970 to the first of a month.
fn days(year: u64, month: u32) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = u64::from(if month > 2 { month - 3 } else { month + 9 });
    let era = year / 400;
    let of_era = year % 400;
    let of_year = (153 * month + 2) / 5;
    let day = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    (era * 146_097 + day).saturating_sub(719_468)
}

#[cfg(test)]
mod tests;
