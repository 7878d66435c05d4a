use proptest::prelude::*;

use super::*;

#[test]
fn times_are_read_and_written_with_their_unit() {
    for (text, millis, written) in [
        ("5ms", 5, "5ms"),
        ("2s", 2_000, "2s"),
        ("5m", 300_000, "5m"),
        ("1h", 3_600_000, "1h"),
        ("1500ms", 1_500, "1500ms"),
        ("90s", 90_000, "90s"),
        ("60s", 60_000, "1m"),
        ("8760h", MAX_MILLIS, "365d"),
    ] {
        let time: Time = text.parse().unwrap();
        assert_eq!(time.0, Duration::from_millis(millis), "{text}");
        assert_eq!(time.to_string(), written);
    }
    assert_eq!("0s".parse(), Ok(Age(Duration::ZERO)));
    assert_eq!(Age(Duration::ZERO).to_string(), "0s");
}

#[test]
fn what_is_no_time_is_refused() {
    for text in [
        "",
        "s",
        "5",
        "0s",
        "0ms",
        "-5s",
        "+5s",
        "5 s",
        "5S",
        "1.5s",
        "5sec",
        "5us",
        "1h30m",
        "8761h",
        "99999999999999999999s",
        "5s ",
    ] {
        assert!(text.parse::<Time>().is_err(), "{text}");
    }
    assert_eq!("5".parse::<Time>().unwrap_err(), "`5` has no unit; write `5s` or `5ms`");
}

#[test]
fn sizes_are_powers_of_two_or_of_ten() {
    for (text, bytes, written) in [
        ("0B", 0, "0B"),
        ("512B", 512, "512B"),
        ("64KiB", 65_536, "64KiB"),
        ("1MiB", 1_048_576, "1MiB"),
        ("1MB", 1_000_000, "1MB"),
        ("1024KiB", 1_048_576, "1MiB"),
        ("1000KB", 1_000_000, "1MB"),
        ("3TiB", 3 << 40, "3TiB"),
        ("1000000001B", 1_000_000_001, "1000000001B"),
    ] {
        let size: Size = text.parse().unwrap();
        assert_eq!(size, Size(bytes), "{text}");
        assert_eq!(size.to_string(), written);
    }
    for text in ["", "B", "5", "-5B", "5 KiB", "5kib", "5K", "5Kb", "1.5MiB", "99999999TiB", "18446744073709551616B"] {
        assert!(text.parse::<Size>().is_err(), "{text}");
    }
}

#[test]
fn rates_are_per_second_minute_or_hour() {
    for (text, per_second) in [("20/s", 20.0), ("300/min", 5.0), ("3600/h", 1.0), ("0.5/s", 0.5)] {
        let rate: Rate = text.parse().unwrap();
        assert_eq!(rate.per_second(), per_second, "{text}");
        assert_eq!(rate.to_string(), text);
    }
    for text in [
        "",
        "20",
        "/s",
        "20/",
        "20/m",
        "20/sec",
        "0/s",
        "-1/s",
        "1e3/s",
        "inf/s",
        "NaN/s",
        ".5/s",
        "5./s",
        "9999999999999/s",
        "20 /s",
    ] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}

#[test]
fn shares_are_of_a_whole() {
    for (text, fraction) in [("0%", 0.0), ("20%", 0.2), ("0.1%", 0.001), ("100%", 1.0)] {
        let share: Share = text.parse().unwrap();
        assert!((share.fraction() - fraction).abs() < 1e-12, "{text}");
        assert_eq!(share.to_string(), text);
    }
    for text in ["", "%", "20", "-1%", "100.1%", "1e1%", "20 %", "0.5"] {
        assert!(text.parse::<Share>().is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(millis in 1..=MAX_MILLIS, bytes in 0..=i64::MAX as u64, count in 1e-6..1e9_f64, percent in 0.0..=100.0_f64) {
        let time = Time(Duration::from_millis(millis));
        prop_assert_eq!(time.to_string().parse(), Ok(time));
        let size = Size(bytes);
        prop_assert_eq!(size.to_string().parse(), Ok(size));
        let rate = Rate { count, seconds: 60 };
        prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        let share = Share { percent };
        prop_assert_eq!(share.to_string().parse(), Ok(share));
    }

    #[test]
    fn no_text_does_harm(text in "\\PC{0,12}|[0-9]{0,25}(ms|s|m|h|B|KiB|TB|/s|%)?") {
        let _ = (text.parse::<Time>(), text.parse::<Age>(), text.parse::<Size>(), text.parse::<Rate>(), text.parse::<Share>());
    }
}
