//! The settings of the simulator: from the environment at start, from `X-Sim-*` fields for one request.

use axum::http::HeaderMap;

/// A value that cannot be used; the text names the variable or the field, and says what would do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be {wanted}")]
pub struct BadSetting {
    /// The variable or the field.
    pub name: &'static str,
    wanted: String,
}

/// How the inference services behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Wait before the response; `None`: 30 to 50 ms, by the prompt.
    pub latency_ms: Option<u32>,
    /// Tokens of a completion.
    pub tokens: u32,
    /// Time from one token to the next.
    pub token_interval_ms: u32,
    /// Share of requests that fail, in millionths.
    pub error_rate: u32,
    /// Status of those.
    pub error_status: u16,
    /// Requests in flight beyond which a request is refused; 0: no limit.
    pub concurrency: u32,
    /// Another seed, other tokens.
    pub seed: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            latency_ms: None,
            tokens: 32,
            token_interval_ms: 20,
            error_rate: 0,
            error_status: 500,
            concurrency: 0,
            seed: 0,
        }
    }
}

/// One setting: its variable, its field, and how its text is read.
struct Setting {
    variable: &'static str,
    field: Option<&'static str>,
    read: fn(&mut Settings, &[u8]) -> Result<(), String>,
}

/// In the order in which a wrong one is named.
const SETTINGS: [Setting; 7] = [
    Setting {
        variable: "SIM_LATENCY_MS",
        field: Some("X-Sim-Latency-Ms"),
        read: |s, text| whole(text, 0, 600_000).map(|n| s.latency_ms = Some(n)),
    },
    Setting {
        variable: "SIM_TOKENS",
        field: Some("X-Sim-Tokens"),
        read: |s, text| whole(text, 1, 100_000).map(|n| s.tokens = n),
    },
    Setting {
        variable: "SIM_TOKEN_INTERVAL_MS",
        field: Some("X-Sim-Token-Interval-Ms"),
        read: |s, text| whole(text, 0, 60_000).map(|n| s.token_interval_ms = n),
    },
    Setting {
        variable: "SIM_ERROR_RATE",
        field: Some("X-Sim-Error-Rate"),
        read: |s, text| millionths(text).map(|n| s.error_rate = n),
    },
    Setting {
        variable: "SIM_ERROR_STATUS",
        field: Some("X-Sim-Error-Status"),
        read: |s, text| whole(text, 400, 599).map(|n| s.error_status = n as u16),
    },
    Setting {
        variable: "SIM_CONCURRENCY",
        field: Some("X-Sim-Concurrency"),
        read: |s, text| whole(text, 0, 1_000_000).map(|n| s.concurrency = n),
    },
    // The seed has no field: one process, one world of responses.
    Setting { variable: "SIM_SEED", field: None, read: |s, text| whole(text, 0, u32::MAX).map(|n| s.seed = n) },
];

impl Settings {
    /// The settings that the variables `SIM_*` give; `variable` looks one up.
    ///
    /// # Errors
    /// The first variable, in the order of the documentation, whose value cannot be used.
    pub fn from_env(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<Settings, BadSetting> {
        let mut settings = Settings::default();
        for setting in &SETTINGS {
            if let Some(text) = variable(setting.variable) {
                (setting.read)(&mut settings, text.as_encoded_bytes())
                    .map_err(|wanted| BadSetting { name: setting.variable, wanted })?;
            }
        }
        Ok(settings)
    }

    /// These settings with what the fields of one request say instead.
    pub(super) fn for_request(mut self, fields: &HeaderMap) -> Result<Settings, BadSetting> {
        for setting in &SETTINGS {
            let Some(name) = setting.field else { continue };
            if let Some(text) = fields.get(name) {
                (setting.read)(&mut self, text.as_bytes()).map_err(|wanted| BadSetting { name, wanted })?;
            }
        }
        Ok(self)
    }
}

/// Decimal digits alone.
fn digits(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok().filter(|t| (1..=10).contains(&t.len()))?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn whole(text: &[u8], low: u32, high: u32) -> Result<u32, String> {
    let n = digits(text).and_then(|n| u32::try_from(n).ok());
    n.filter(|n| (low..=high).contains(n)).ok_or_else(|| format!("a whole number from {low} to {high}"))
}

/// A rate as a whole number of millionths: exact, the same in every language.
fn millionths(text: &[u8]) -> Result<u32, String> {
    const ONE: u64 = 1_000_000;
    let value = || {
        let (ones, decimals) = match text {
            [ones @ (b'0' | b'1')] => (ones, &b"0"[..]),
            [ones @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 6 => (ones, decimals),
            _ => return None,
        };
        let scale = 10u64.pow(6 - decimals.len() as u32);
        Some(u64::from(ones - b'0') * ONE + digits(decimals)? * scale).filter(|n| *n <= ONE)
    };
    value().map(|n| n as u32).ok_or_else(|| "a number from 0 to 1 with at most 6 decimals".into())
}
