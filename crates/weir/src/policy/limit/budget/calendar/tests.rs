use std::time::Duration;

use super::*;

/// Seconds since 1970, from `date -u -d ... +%s`.
const LEAP_DAY_2024: u64 = 1_709_164_800;

fn seconds(window: BudgetWindow, now: u64) -> [u64; 4] {
    beginnings(window, now * 1_000_000).map(|us| {
        assert_eq!(us % 1_000_000, 0);
        us / 1_000_000
    })
}

#[test]
fn months_have_the_lengths_of_the_calendar() {
    let (january, february, march, april) = (1_704_067_200, 1_706_745_600, 1_709_251_200, 1_711_929_600);
    for now in [february, LEAP_DAY_2024, march - 1] {
        assert_eq!(seconds(BudgetWindow::Month(0), now), [january, february, march, april]);
    }
    assert_eq!(seconds(BudgetWindow::Month(0), march)[1], march);
    let (december, next_year) = (1_733_011_200, 1_735_689_600);
    assert_eq!(seconds(BudgetWindow::Month(0), next_year - 1)[1..3], [december, next_year]);
    // 2100 is no leap year.
    assert_eq!(seconds(BudgetWindow::Month(0), 4_107_542_400 - 1)[1..3], [4_105_123_200, 4_107_542_400]);
}

#[test]
fn days_and_months_begin_by_the_clock_on_the_wall() {
    let midnight = LEAP_DAY_2024;
    assert_eq!(seconds(BudgetWindow::Day(0), midnight + 5)[1], midnight);
    // An hour east of UTC the next day has begun.
    assert_eq!(seconds(BudgetWindow::Day(60), midnight + 86_400 - 1)[1], midnight + 86_400 - 3_600);
    assert_eq!(seconds(BudgetWindow::Day(-60), midnight + 5)[1], midnight - 86_400 + 3_600);
    let march = 1_709_251_200;
    assert_eq!(seconds(BudgetWindow::Month(60), march - 1)[1], march - 3_600);
    assert_eq!(seconds(BudgetWindow::Month(-60), march + 1)[2], march + 3_600);
}

#[test]
fn aligned_windows_are_multiples() {
    assert_eq!(seconds(BudgetWindow::Aligned(Duration::from_secs(10)), 47), [30, 40, 50, 60]);
    assert_eq!(seconds(BudgetWindow::Aligned(Duration::from_secs(10)), 5), [0, 0, 10, 20]);
}

#[test]
fn a_time_after_the_last_year_has_windows_too() {
    assert!(beginnings(BudgetWindow::Month(0), u64::MAX).is_sorted());
}
