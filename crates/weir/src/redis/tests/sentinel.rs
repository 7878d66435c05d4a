use std::time::Duration;

use testkit::RedisSentinel;

use super::{LONG_TIMEOUT, Rig, run, until};
use crate::redis::State;

#[test]
fn the_primary_is_found_and_followed() {
    let servers = RedisSentinel::start();
    let rig = Rig::new(&servers.url(), LONG_TIMEOUT);
    run(async {
        rig.client.set(b"k", b"1", Duration::from_secs(60)).await.unwrap();
        assert_eq!(servers.primary().cli(["GET", "k"]), "1");
        servers.fail_over();
        until("the new one takes writes", async || rig.client.set(b"k", b"2", Duration::from_secs(60)).await.is_ok())
            .await;
        assert_eq!(servers.primary().cli(["GET", "k"]), "2");
        assert_eq!(rig.state(), State::Up);
    });
}
