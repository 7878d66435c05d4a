//! Lines of the access log in a form of the operator's own.

use std::sync::Arc;

use super::template;

/// A part of such a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPart {
    /// As it is written.
    Text(Arc<str>),
    /// The value of a field; one of [`LOG_FIELDS`].
    Field(&'static str),
}

/// Names of all fields that a line may have, as `format: logfmt` has them.
pub const LOG_FIELDS: &[&str] = &[
    "time",
    "client",
    "protocol",
    "method",
    "host",
    "path",
    "query",
    "status",
    "grpc_status",
    "route",
    "upstream",
    "target",
    "bytes_in",
    "bytes_out",
    "duration_ms",
    "upstream_ms",
    "queue_ms",
    "attempts",
    "request_id",
    "trace_id",
    "span_id",
    "user_agent",
    "referer",
    "fallback",
    "consumer",
    "cache",
    "auth",
    "auth_detail",
    "would_refuse",
    "violations",
    "ai_api",
    "ai_model",
    "ai_provider",
    "ai_served_model",
    "ai_key",
    "ai_stream",
    "ai_ttft_ms",
    "ai_tokens_in",
    "ai_tokens_out",
    "ai_tokens_cached",
    "ai_estimated",
    "ai_cost",
    "ai_tokens_reserved",
    "ai_redacted",
    "ai_recovered",
    "ai_tried",
    "ai_end",
    "tls_version",
    "tls_cipher",
    "tls_group",
    "sni",
    "alpn",
    "tls_resumed",
    "client_cert_sha256",
    "proxy",
    "proxy_protocol",
    "proxy_authority",
    "proxy_alpn",
    "proxy_unique_id",
    "reason",
    "fault",
    "detail",
    "why",
];

/// The parts of a template. `{name}` is a field; `{{name}` stands for the text `{name}`; other braces stand for themselves.
///
/// # Errors
/// A field that there is not, a line break, or no field at all.
pub fn log_template(text: &str) -> Result<Vec<LogPart>, String> {
    if text.contains(char::is_control) {
        return Err("a template is one line, without control characters".to_owned());
    }
    let parts = template::pieces(text, LogPart::Text, |name| {
        let known = LOG_FIELDS.iter().copied().find(|field| *field == name);
        known.map(LogPart::Field).ok_or_else(|| {
            format!("there is no field `{{{name}}}`; there are {}; `{{{{{name}}}` is the text", LOG_FIELDS.join(", "))
        })
    })?;
    if !parts.iter().any(|part| matches!(part, LogPart::Field(_))) {
        return Err("a template without a field would write the same line for each request".to_owned());
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_fields_and_text() {
        let text = |text: &str| LogPart::Text(text.into());
        let parts = log_template("{client} \"{method} {path}\" {{status}").unwrap();
        let expected = [
            LogPart::Field("client"),
            text(" \""),
            LogPart::Field("method"),
            text(" "),
            LogPart::Field("path"),
            text("\" {status}"),
        ];
        assert_eq!(parts, expected);
        for (wrong, why) in [
            ("{client_ip}", "there is no field `{client_ip}`; there are time, client"),
            ("{client}\n", "one line"),
            ("", "without a field"),
            ("{{client}", "without a field"),
        ] {
            assert!(log_template(wrong).unwrap_err().contains(why), "{wrong}");
        }
    }
}
