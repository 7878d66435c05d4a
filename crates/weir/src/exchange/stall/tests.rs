use super::*;

/// Stalls of an exchange that began at 0, each with the time at which it ended.
fn after(stalls: &[(Stall, u64)]) -> Stalls {
    let mut all = Stalls::new(0);
    let mut now = 0;
    for &(stall, end) in stalls {
        all.change_at(stall, now);
        now = end;
    }
    all.change_at(Stall::None, now);
    all
}

#[test]
fn each_side_is_charged_with_what_it_stalled_and_nobody_with_what_moved() {
    let stalls = after(&[
        (Stall::Gateway, 5),
        (Stall::UpstreamConnects, 15),
        (Stall::ClientSends, 45),
        (Stall::None, 1000),
        (Stall::UpstreamReceives, 1001),
        (Stall::UpstreamHead, 1021),
        (Stall::UpstreamBody, 1030),
        (Stall::ClientReceives, 1031),
        (Stall::ClientSendsDuringResponse, 1033),
    ]);
    assert_eq!((stalls.gateway, stalls.upstream, stalls.client), (5, 40, 33));
}

#[test]
fn the_larger_account_is_at_fault() {
    for (stalls, fault) in [
        (vec![(Stall::UpstreamHead, 10), (Stall::ClientSends, 30)], Fault::Client),
        (vec![(Stall::ClientSends, 10), (Stall::UpstreamHead, 30)], Fault::Upstream),
        (vec![(Stall::ClientSends, 10), (Stall::UpstreamHead, 20)], Fault::Upstream),
        (vec![(Stall::Gateway, 20), (Stall::UpstreamHead, 30)], Fault::Gateway),
        // Many short ones are charged like one long one.
        (
            (0..20).map(|n| (if n % 2 == 0 { Stall::ClientReceives } else { Stall::None }, n * 5 + 5)).collect(),
            Fault::Client,
        ),
        (vec![], Fault::Upstream),
    ] {
        assert_eq!(after(&stalls).larger_fault(), fault, "{stalls:?}");
    }
}
