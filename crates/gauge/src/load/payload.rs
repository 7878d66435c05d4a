//! Payloads of event-ingestion services (the six of `services/producer`): events of a stated size, nested and realistic, always the same ones of a seed.

use fastrand::Rng;
use serde_json::{Value, json};

/// How far an event may be from its size.
pub const TOLERANCE: f64 = 0.01;

/// The smallest event that can be made to measure: one entity with a few attributes.
pub const LEAST: usize = 320;

/// Most bytes of an entity; more of an event is more entities.
const ENTITY: usize = 4096;
/// Another entity takes so many bytes.
const ANOTHER: usize = 512;

/// The largest: services take bodies of a mebibyte.
pub const MOST: usize = 1 << 20;

const KINDS: [(&str, &str, &str); 4] = [
    ("LoanPaymentSubmitted", "LoanPayment", "payment"),
    ("CarServiceDone", "ServiceRecord", "service"),
    ("LoanCreated", "Loan", "loan"),
    ("CarCreated", "Car", "car"),
];
const MAKES: [&str; 8] = ["Toyota", "Honda", "Ford", "Volkswagen", "Hyundai", "Renault", "Skoda", "Volvo"];
const TOWNS: [&str; 8] = ["Utrecht", "Leipzig", "Lyon", "Bergen", "Porto", "Gdansk", "Turin", "Ghent"];
const WORDS: [&str; 16] = [
    "inspected",
    "replaced",
    "brake",
    "pads",
    "front",
    "rear",
    "oil",
    "filter",
    "customer",
    "approved",
    "invoice",
    "mileage",
    "warranty",
    "tyre",
    "rotation",
    "cleaned",
];
/// Some day in 2026, in milliseconds since 1970.
const DAY: u64 = 1_767_225_600_000;

/// The `number`-th event of a seed as JSON, within [`TOLERANCE`] of `bytes`.
pub fn event(bytes: usize, seed: u64, number: u64) -> String {
    let mut random = Rng::with_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let (event_type, entity_type, prefix) = KINDS[random.usize(..KINDS.len())];
    let created = DAY + random.u64(..86_400_000);
    let uuid = uuid(&mut random);
    let header = json!({
        "uuid": uuid, "eventName": event_type, "createdDate": iso(created), "savedDate": iso(created + random.u64(5..500)), "eventType": event_type
    });
    let (begin, end) = (format!(r#"{{"eventHeader":{header},"eventBody":{{"entities":["#), "]}}");
    let mut text = begin;
    for entity in 0.. {
        let mut body = format!(
            r#"{}{{"entityType":"{entity_type}","entityId":"{prefix}-{number:06}-{entity}","updatedAttributes":{{"status":"{}""#,
            if entity > 0 { "," } else { "" },
            ["ACTIVE", "PENDING", "CLOSED"][random.usize(..3)],
        );
        let left = |body: &str| bytes.saturating_sub(text.len() + body.len() + "}}".len() + end.len());
        for attribute in 1.. {
            let (name, value) = self::attribute(&mut random, attribute);
            let more = format!(r#","{name}":{value}"#);
            if body.len() + more.len() > ENTITY || more.len() > left(&body) {
                break;
            }
            body.push_str(&more);
        }
        // Too little for another entity: the rest is what somebody wrote down.
        let rest = left(&body);
        let last = rest < ANOTHER;
        let wrapped = r#","notes":"""#.len();
        if last && rest > wrapped {
            body.push_str(&format!(r#","notes":"{}""#, notes(&mut random, rest - wrapped)));
        }
        text.push_str(&body);
        text.push_str("}}");
        if last {
            break;
        }
    }
    text.push_str(end);
    text
}

fn attribute(random: &mut Rng, number: usize) -> (String, Value) {
    let make = MAKES[random.usize(..MAKES.len())];
    let town = TOWNS[random.usize(..TOWNS.len())];
    match number % 6 {
        1 => (format!("amount{number}"), (random.u32(1_000..9_000_000) as f64 / 100.0).into()),
        2 => (format!("make{number}"), make.into()),
        3 => (
            format!("address{number}"),
            json!({"town": town, "street": format!("{} street", notes(random, 9)), "number": random.u32(1..400), "geo": {"lat": coordinate(random), "lon": coordinate(random)}}),
        ),
        4 => {
            let part = |random: &mut Rng| json!({"part": notes(random, 12), "quantity": random.u32(1..9), "price": random.u32(100..90_000) as f64 / 100.0});
            (format!("parts{number}"), (0..random.usize(1..4)).map(|_| part(random)).collect())
        }
        5 => (
            format!("history{number}"),
            json!([{"at": iso(DAY + random.u64(..86_400_000)), "by": {"name": town, "approved": random.bool()}}]),
        ),
        _ => (format!("mileage{number}"), random.u32(..300_000).into()),
    }
}

fn coordinate(random: &mut Rng) -> f64 {
    f64::from(random.u32(..90_000_000)) / 1e6
}

/// So many words with a space between two.
pub(crate) fn words(random: &mut Rng, count: usize) -> String {
    let mut text = String::with_capacity(count * 9);
    for number in 0..count {
        if number > 0 {
            text.push(' ');
        }
        text.push_str(WORDS[random.usize(..WORDS.len())]);
    }
    text
}

/// So many characters of words.
fn notes(random: &mut Rng, length: usize) -> String {
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(WORDS[random.usize(..WORDS.len())]);
        text.push(' ');
    }
    text.truncate(length);
    // No blank at the end, which some would trim.
    if text.ends_with(' ') {
        text.pop();
        text.push('.');
    }
    text
}

/// A version 4 UUID (RFC 9562 section 5.4).
fn uuid(random: &mut Rng) -> String {
    let bits = random.u128(..) & !(0xF << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// `2026-01-01T10:20:30.456Z`, of a day in [`DAY`]'s month.
fn iso(unix_ms: u64) -> String {
    let (day, ms) = ((unix_ms - DAY) / 86_400_000, (unix_ms - DAY) % 86_400_000);
    let (seconds, ms) = (ms / 1000, ms % 1000);
    format!("2026-01-{:02}T{:02}:{:02}:{:02}.{ms:03}Z", day + 1, seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_size_and_are_always_the_same() {
        for bytes in [400, 4096, 8192, 32_768, 65_536] {
            for number in 0..50 {
                let text = event(bytes, 7, number);
                let off = (text.len() as f64 / bytes as f64 - 1.0).abs();
                assert!(off <= TOLERANCE, "event {number} of {bytes} bytes has {}", text.len());
                assert_eq!(text, event(bytes, 7, number));
                let read: Value = serde_json::from_str(&text).expect("JSON");
                let entities = read["eventBody"]["entities"].as_array().expect("entities");
                assert!(!entities.is_empty() && entities.iter().all(|entity| entity["updatedAttributes"].is_object()));
                assert!(bytes < 4096 || text.contains("\"geo\":{"), "it is nested");
            }
            assert_ne!(event(bytes, 7, 1), event(bytes, 8, 1), "another seed, other events");
            assert_ne!(event(bytes, 7, 1), event(bytes, 7, 2));
        }
    }
}
