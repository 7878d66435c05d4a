//! HTTP dates (RFC 9110 section 5.6.7).

use super::date::parse;

const NOW_S: i64 = 784_111_777;

#[test]
fn a_date_that_was_parsed_before_means_the_same_and_others_do_not_take_its_place() {
    for _ in 0..3 {
        for second in 0..60 {
            for day in [6, 7] {
                let text = format!("Sun, 0{day} Nov 1994 08:49:{second:02} GMT");
                let expected = 784_111_740 + (day - 6) * 86_400 + second;
                assert_eq!(parse(text.as_bytes(), 0), Some(expected), "{text}");
                assert_eq!(parse(text.to_lowercase().as_bytes(), 0), Some(expected), "{text}");
            }
        }
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:60 GMT", 0), Some(784_111_799), "a leap second");
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:61 GMT", 0), None);
        assert_eq!(parse(&[0; 29], 0), None);
    }
}

#[test]
fn the_three_formats_are_read() {
    for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(parse(text.as_bytes(), NOW_S), Some(NOW_S), "{text}");
    }
    for (text, seconds) in [
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        ("Wed, 31 Dec 1969 23:59:59 GMT", -1),
        ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
        ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
        ("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200),
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_799),
        ("Wed Nov 16 08:49:37 1994", 784_975_777),
        ("Mon, 06 Nov 1994 08:49:37 GMT", NOW_S),
    ] {
        assert_eq!(parse(text.as_bytes(), NOW_S), Some(seconds), "{text}");
    }
}

#[test]
fn what_is_nearly_a_date_is_none() {
    for text in [
        "",
        "0",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "Sun, 06  Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 29 Feb 1995 08:49:37 GMT",
        "Sun, 31 Apr 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Son, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nuv 1994 08:49:37 GMT",
        "06 Nov 1994 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov  6 08:49:37 94",
        "Sun, 06 Nov -994 08:49:37 GMT",
        "Sun, +6 Nov 1994 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(parse(text.as_bytes(), NOW_S), None, "{text}");
    }
}

#[test]
fn two_digit_years_are_at_most_fifty_years_ahead() {
    let year_2020 = 1_577_836_800;
    for (text, expected) in [
        // 70 of 2070 is 50 years ahead.
        ("Wednesday, 01-Jan-70 00:00:00 GMT", 3_155_760_000),
        ("Wednesday, 01-Jan-70 00:00:01 GMT", 1),
        ("Wednesday, 01-Jan-71 00:00:00 GMT", 31_536_000),
        ("Wednesday, 01-Jan-20 00:00:00 GMT", year_2020),
        ("Wednesday, 01-Jan-99 00:00:00 GMT", 915_148_800),
        ("Saturday, 01-Jan-00 00:00:00 GMT", 946_684_800),
    ] {
        assert_eq!(parse(text.as_bytes(), year_2020), Some(expected), "{text}");
    }
    // From 1994, 30 is 2030.
    assert_eq!(parse(b"Tuesday, 01-Jan-30 00:00:00 GMT", NOW_S), Some(1_893_456_000));
}
