//! What limits of tokens and of money have beyond others, and the file of prices.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use llm::money::parse_millionths;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::{Map, Spanned};
use super::text::text_type;
use super::units::Time;

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitUnit {
    /// Requests.
    Requests,
    /// Input and output tokens of AI models.
    Tokens,
    /// Input tokens of AI models.
    InputTokens,
    /// Output tokens of AI models.
    OutputTokens,
    /// What calls of AI models cost, in the currency of `prices`.
    Money,
}

/// A number from 0 with up to six places behind the point, such as `100` or `49.50`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Millionths.
    pub millionths: u64,
}

impl Amount {
    /// The number, if it is whole.
    pub fn whole(self) -> Option<u64> {
        self.millionths.is_multiple_of(1_000_000).then_some(self.millionths / 1_000_000)
    }
}

impl FromStr for Amount {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a number from 0, such as `100` or `49.50`, found `{text}`");
        parse_millionths(text).map(|millionths| Amount { millionths }).ok_or_else(wrong)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whole() {
            Some(whole) => write!(f, "{whole}"),
            None => {
                let text = format!("{}.{:06}", self.millionths / 1_000_000, self.millionths % 1_000_000);
                f.write_str(text.trim_end_matches('0'))
            }
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.whole() {
            Some(whole) => serializer.serialize_u64(whole),
            None => serializer.serialize_f64(self.millionths as f64 / 1e6),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct AmountVisitor;
        impl Visitor<'_> for AmountVisitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0, such as `100` or `49.50`")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_str(AmountVisitor)
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"description": "A number from 0, such as `100` or `49.50`.", "type": "number", "minimum": 0})
    }
}

/// Length of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// So long.
    Time(Time),
    /// A day of the calendar.
    Day,
    /// A month of the calendar.
    Month,
}

text_type!(
    Window,
    "Window",
    r"^([0-9]+(ms|s|m|h|d)|day|month)$",
    "a time such as `1m` or `1d`, or with `unit` tokens or money `day` or `month` of the calendar"
);

impl FromStr for Window {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "day" => Ok(Window::Day),
            "month" => Ok(Window::Month),
            _ => text.parse().map(Window::Time),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Time(time) => time.fmt(f),
            Window::Day => f.write_str("day"),
            Window::Month => f.write_str("month"),
        }
    }
}

/// `UTC`, or a difference from it that is the same all year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timezone {
    /// Minutes east of UTC.
    pub minutes: i32,
}

text_type!(Timezone, "Timezone", r"^(UTC|[+-][0-9]{2}:[0-9]{2})$", "`UTC`, or a difference from it such as `+01:00`");

impl FromStr for Timezone {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected `UTC` or a difference from it such as `+01:00`, found `{text}`");
        if text == "UTC" {
            return Ok(Timezone::default());
        }
        let (sign, rest) = match text.as_bytes().first() {
            Some(b'+') => (1, &text[1..]),
            Some(b'-') => (-1, &text[1..]),
            _ => return Err(wrong()),
        };
        let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
        let number = |text: &str, most: i32| -> Option<i32> {
            let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|number| is_number && *number <= most)
        };
        let hours = number(hours, 14).ok_or_else(wrong)?;
        let minutes = number(minutes, 59).ok_or_else(wrong)?;
        Ok(Timezone { minutes: sign * (hours * 60 + minutes) })
    }
}

impl fmt::Display for Timezone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.minutes == 0 {
            return f.write_str("UTC");
        }
        let sign = if self.minutes < 0 { '-' } else { '+' };
        let minutes = self.minutes.abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// The file of prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "prices: a mapping of `currency`, `per` and `models`")]
pub struct Prices {
    /// What prices are in; for metrics.
    pub currency: Spanned<String>,
    /// Tokens that a price is for.
    #[serde(default)]
    pub per: PricePer,
    /// By `PROVIDER/MODEL`.
    pub models: Map<Spanned<ModelPrice>>,
}

/// Tokens that a price is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum PricePer {
    /// A million.
    #[default]
    #[serde(rename = "1M")]
    Million,
}

/// Prices of a model.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a mapping of `input` and `output`")]
pub struct ModelPrice {
    /// Input.
    pub input: Amount,
    /// Input read from a cache of the provider; absent: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Amount>,
    /// Input written to a cache of the provider; absent: as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Amount>,
    /// Output.
    pub output: Amount,
    /// For each request.
    pub request: Amount,
}
