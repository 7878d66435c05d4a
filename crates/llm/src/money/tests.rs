use super::*;
use proptest::prelude::*;

fn price(input: &str, cached: &str, write: &str, output: &str) -> Price {
    let parse = |text: &str| parse_millionths(text).expect("a price");
    Price {
        input: parse(input),
        cached_input: Some(parse(cached)),
        cache_write: Some(parse(write)),
        output: parse(output),
        request: 0,
    }
}

#[test]
fn decimals() {
    for (text, value) in [
        ("0", Some(0)),
        ("2.50", Some(2_500_000)),
        ("0.075", Some(75_000)),
        ("0.000001", Some(1)),
        ("0.0000001", None),
        ("", None),
        (".5", None),
        ("5.", None),
        ("-1", None),
        ("1e3", None),
        ("+1", None),
        ("1 ", None),
        ("18446744073709.551615", Some(u64::MAX)),
        ("18446744073709.551616", None),
    ] {
        assert_eq!(parse_millionths(text), value, "{text}");
    }
}

#[test]
fn costs() {
    let price = price("3", "0.3", "3.75", "15");
    assert_eq!(price.cost(&Tokens { input: 1_000_000, ..Tokens::default() }), 3_000_000);
    let tokens = Tokens { input: 1000, cached: 400, cache_write: 100, output: 200 };
    assert_eq!(price.cost(&tokens), 1500 + 120 + 375 + 3000);
    assert_eq!(price.cost(&Tokens { input: 1, ..Tokens::default() }), 3);
    assert_eq!(price.cost(&Tokens { input: 1, cached: 1, ..Tokens::default() }), 1, "a fraction counts as one");
    assert_eq!(Price { request: 7, ..price }.cost(&Tokens::default()), 7);
    let plain = Price { cached_input: None, cache_write: None, ..price };
    assert_eq!(plain.cost(&tokens), 3000 + 3000);
    assert_eq!(price.cost(&Tokens { input: u64::MAX, output: u64::MAX, ..Tokens::default() }), u64::MAX);
    assert_eq!(
        price.cost(&Tokens { input: 1, cached: 5, cache_write: 5, output: 0 }),
        1,
        "parts are never more than the whole"
    );
}

#[test]
fn reservations() {
    let limit = OutputLimit { choices: 2, requested: Some(100), max_output: Some(80), reserve_output: 1024 };
    let (cheap, dear) = (price("1", "1", "1", "2"), price("3", "0.3", "6", "15"));
    let reserved = Reservation::new(1000, limit, &[cheap, dear]);
    assert_eq!((reserved.input, reserved.output, reserved.tokens()), (1000, 160, 1160));
    assert_eq!(reserved.money, 6000 + 2400, "the dearest candidate, its input written to a cache");
    for (requested, max_output, output) in
        [(None, None, 2048), (None, Some(80), 160), (Some(10), None, 20), (Some(u64::MAX), None, u64::MAX)]
    {
        assert_eq!(Reservation::new(0, OutputLimit { requested, max_output, ..limit }, &[]).output, output);
    }
}

#[test]
fn settlements() {
    let price = price("3", "0.3", "3.75", "15");
    let reserved = Reservation { input: 1000, output: 100, money: 4500 };
    let reported = Tokens { input: 900, cached: 0, cache_write: 0, output: 50 };
    for (end, tokens, money, correction, estimated) in [
        (End::Reported(reported), 950, 3450, -150, false),
        (End::Reported(Tokens { output: 300, ..reported }), 1200, 7200, 100, false),
        (End::Unreported { delivered: 40 }, 1040, 3600, -60, true),
        (End::Partial { delivered: 40, reported: None }, 1040, 3600, -60, true),
        (End::Partial { delivered: 40, reported: Some(Tokens { output: 1, ..reported }) }, 940, 3300, -160, true),
        (End::Nothing, 0, 0, -1100, false),
    ] {
        let settled = reserved.settle(end, &price);
        assert_eq!(
            (settled.tokens.total(), settled.money, settled.token_correction, settled.estimated),
            (tokens, money, correction, estimated),
            "{end:?}"
        );
        assert_eq!(settled.money_correction, money as i64 - 4500);
    }
    let free = Price { request: 5, ..Price::default() };
    assert_eq!(reserved.settle(End::Nothing, &free).money, 0, "a refused call costs nothing");
}

#[test]
fn tokens_of_each_api() {
    let usage = Usage {
        input: Some(10),
        output: Some(5),
        cached: Some(4),
        cache_write: Some(2),
        thoughts: Some(1),
        tool_input: None,
    };
    assert_eq!(Tokens::of(&usage, Api::Messages), Tokens { input: 16, cached: 4, cache_write: 2, output: 6 });
    assert_eq!(Tokens::of(&usage, Api::Chat).input, 10);
}

proptest! {
    #[test]
    fn reserved_plus_correction_is_what_is_settled(
        estimate in 0..1_000_000_u64, output in 0..100_000_u64, delivered in 0..200_000_u64,
        input in 0..2_000_000_u64, cached in 0..100_u64, kind in 0..4_usize,
    ) {
        let price = price("3", "0.3", "3.75", "15");
        let limit = OutputLimit { choices: 1, requested: Some(output), max_output: None, reserve_output: 0 };
        let reserved = Reservation::new(estimate, limit, &[price]);
        let reported = Tokens { input, cached, cache_write: 0, output: delivered };
        let end = [End::Reported(reported), End::Unreported { delivered }, End::Partial { delivered, reported: Some(reported) }, End::Nothing][kind];
        let settled = reserved.settle(end, &price);
        prop_assert_eq!(i128::from(reserved.tokens()) + i128::from(settled.token_correction), i128::from(settled.tokens.total()));
        prop_assert_eq!(i128::from(reserved.money) + i128::from(settled.money_correction), i128::from(settled.money));
        // who stays within what was reserved never owes
        if settled.tokens.input <= reserved.input && settled.tokens.output <= reserved.output {
            prop_assert!(settled.money_correction <= 0);
        }
    }
}
