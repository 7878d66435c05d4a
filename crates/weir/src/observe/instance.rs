//! Which process telemetry comes from.

use crate::config::Telemetry;

const KEY: &str = "service.instance.id";

/// What is configured, with a random `service.instance.id` if it has none: several gateways may have the same configuration, and two processes
/// the same machine during a take-over. Metrics and traces of a process have the same.
pub fn with_instance(telemetry: &Telemetry) -> Telemetry {
    let mut telemetry = telemetry.clone();
    if !telemetry.resource.iter().any(|(key, _)| key == KEY)
        && let Some(id) = random_uuid()
    {
        telemetry.resource.push((KEY.to_owned(), id));
    }
    telemetry
}

/// A UUID of version 4 (RFC 9562 section 5.4); none when the system has no random bytes.
fn random_uuid() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    let number = u128::from_be_bytes(bytes) & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{number:032x}");
    Some([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_random_id_unless_the_configuration_has_one() {
        let id = random_uuid().unwrap();
        let positions: Vec<usize> = id.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!((id.len(), &positions[..], &id[14..15]), (36, &[8, 13, 18, 23][..], "4"));
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        assert_ne!(random_uuid().unwrap(), id);
        let own = Telemetry { resource: vec![(KEY.to_owned(), "edge-1".to_owned())], ..Telemetry::default() };
        assert_eq!(with_instance(&own), own);
        assert_eq!(with_instance(&Telemetry::default()).resource[0].0, KEY);
    }
}
