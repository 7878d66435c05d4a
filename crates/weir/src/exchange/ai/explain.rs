//! `X-Weir-Decision`: what a client whose key has `explain` is told about how its call was served. Names of the configuration and numbers only.

use std::fmt::Write as _;

use h1::encode;

use super::super::Exchange;
use super::Record;

/// The field by which a client requests it, with the value `1`.
const REQUESTED: &[u8] = b"x-weir-explain";
const FIELD: &[u8] = b"X-Weir-Decision";

impl Exchange<'_> {
    /// Adds the field to a response of this status, if the client requests it and may have it.
    pub(super) fn explain(&mut self, status: u16) {
        if !self.identity.as_ref().is_some_and(|who| who.may_explain) {
            return;
        }
        let (Some(record), Some(value)) =
            (&self.ai, self.scratch.request.fields.get(REQUESTED, self.down.buffer.whole()))
        else {
            return;
        };
        if value == b"1" {
            let text = decision(record, status, self.log.queue_ns / 1_000_000);
            encode::field(&mut self.scratch.response_lines, FIELD, text.as_bytes());
        }
    }
}

/// `model=chat; tried=openai/a:F2>claude/b:ok; estimate=1500; reserved=1840; queue_ms=12`.
/// An attempt whose response is on its way is not among `tried` yet.
fn decision(record: &Record, status: u16, queue_ms: u64) -> String {
    let mut text = format!("model={}", record.model);
    let on_its_way = record.provider.as_ref().filter(|_| !record.is_noted);
    if !record.tried.is_empty() || on_its_way.is_some() {
        let separator = if record.tried.is_empty() || on_its_way.is_none() { "" } else { ">" };
        let _ = write!(text, "; tried={}{separator}", record.tried);
        if let Some(provider) = on_its_way {
            let _ = write!(text, "{provider}/{}:", record.served_model);
            let _ = if (200..300).contains(&status) { write!(text, "ok") } else { write!(text, "{status}") };
        }
    }
    let _ = write!(text, "; estimate={}", record.estimate);
    if let Some(reserved) = record.reserved {
        let _ = write!(text, "; reserved={reserved}");
    }
    if let Some(limit) = &record.would_refuse {
        let _ = write!(text, "; would_refuse={limit}");
    }
    if queue_ms > 0 {
        let _ = write!(text, "; queue_ms={queue_ms}");
    }
    text
}

#[cfg(test)]
mod tests {
    use llm::Api;

    use super::*;
    use crate::config::ModelId;

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut record = Record::new(Api::Chat, (ModelId(0), "chat".into()), false);
        assert_eq!(decision(&record, 200, 0), "model=chat; estimate=0");
        record.estimate = 12;
        record.attempted("a", "m", "F5");
        assert_eq!(decision(&record, 502, 0), "model=chat; tried=a/m:F5; estimate=12");
        record.is_noted = false;
        record.provider = Some("b".into());
        record.served_model = "n".into();
        record.reserved = Some(40);
        record.would_refuse = Some("tpm".into());
        let expected = "model=chat; tried=a/m:F5>b/n:ok; estimate=12; reserved=40; would_refuse=tpm; queue_ms=7";
        assert_eq!(decision(&record, 200, 7), expected);
        assert!(decision(&record, 404, 0).contains("tried=a/m:F5>b/n:404; "));
    }
}
