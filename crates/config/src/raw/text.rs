//! Short texts that follow a grammar: each is checked where it is read, so that the error stands at its line.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

/// Makes a type that is written as a text: serde through `FromStr` and `Display`, schema with a pattern.
macro_rules! text_type {
    ($type:ident, $name:literal, $pattern:literal, $description:literal) => {
        $crate::raw::text::text_type!($type, $name, {"type": "string", "pattern": $pattern}, $description);
    };
    ($type:ident, $name:literal, {$($schema:tt)*}, $description:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct TextVisitor;
                impl serde::de::Visitor<'_> for TextVisitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($description)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                d.deserialize_str(TextVisitor)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = schemars::json_schema!({$($schema)*});
                schema.insert("description".to_owned(), $crate::raw::text::capitalised($description).into());
                schema
            }
        }
    };
}

pub(crate) use text_type;

/// Descriptions of a schema begin with a capital letter.
pub(crate) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// An address to listen on, `127.0.0.1:8080` or `[::1]:8080`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

text_type!(
    Address,
    "Address",
    r"^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}$",
    "an IP address with a port, such as `127.0.0.1:8080` or `[::]:8080`"
);

impl FromStr for Address {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Address(address));
        }
        let hint = match text.rsplit_once(':') {
            Some(("", port)) => format!("write `0.0.0.0:{port}` for every IPv4 address"),
            Some(("localhost", port)) => {
                format!("names are not resolved here; write `127.0.0.1:{port}`")
            }
            _ => "write an IP address and a port, such as `127.0.0.1:8080` or `[::]:8080`".into(),
        };
        Err(format!("`{text}` is not an address to listen on; {hint}"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A network, `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(pub IpNet);

text_type!(
    Network,
    "Network",
    r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
    "a network such as `10.0.0.0/8` or `fd00::/8`, or one address"
);

impl FromStr for Network {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Network(address.into()));
        }
        let network: IpNet = text
            .parse()
            .map_err(|_| format!("`{text}` is not a network; write `10.0.0.0/8`, `fd00::/8` or one address"))?;
        // `10.1.2.3/8` is usually a slip; which part of it was meant cannot be known.
        if network != network.trunc() {
            return Err(format!("`{text}` has bits set behind its prefix; the network is `{}`", network.trunc()));
        }
        Ok(Network(network))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

/// Name of an upstream, limit, cache or route.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(pub String);

text_type!(Name, "Name", r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$", "a name: up to 64 letters, digits, `_`, `-` and `.`");

impl FromStr for Name {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        check_name(text)?;
        Ok(Name(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names end up in metrics, header fields and Redis keys, and `none` means that there is nothing.
pub(crate) fn check_name(text: &str) -> Result<(), String> {
    let valid = !text.is_empty()
        && text.len() <= 64
        && !text.starts_with(['-', '.'])
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    match text {
        "none" => Err("`none` cannot be a name: it switches a feature off".to_owned()),
        _ if valid => Ok(()),
        _ => Err(format!("`{text}` cannot be a name; use up to 64 letters, digits, `_`, `-` and `.`")),
    }
}

/// Name of a header field (RFC 9110 §5.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldName(pub String);

text_type!(
    FieldName,
    "FieldName",
    r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    "the name of a header field, such as `X-Request-Id`"
);

impl FromStr for FieldName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if is_token(text) && text.len() <= 256 {
            Ok(FieldName(text.to_owned()))
        } else {
            Err(format!("`{text}` is not the name of a header field"))
        }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Value of a header field (RFC 9110 §5.5): printable ASCII with blanks inside. Errors do not show it, as it may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct FieldValue(pub String);

text_type!(
    FieldValue,
    "FieldValue",
    {"type": ["string", "number", "boolean"], "pattern": "^([!-~]([!-~ \t]*[!-~])?)?$"},
    "the value of a header field"
);

impl FromStr for FieldValue {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(bad) = text.chars().find(|c| !matches!(c, ' '..='~' | '\t')) {
            return Err(format!(
                "the value of a header field may not hold {}; only printable ASCII",
                if bad.is_control() { "a control character or line break" } else { "this letter" }
            ));
        }
        if text.trim() != text {
            return Err("the value of a header field may not begin or end with a blank".to_owned());
        }
        Ok(FieldValue(text.to_owned()))
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FieldValue(..)")
    }
}

/// Name of a cookie (RFC 6265 section 4.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieName(pub String);

text_type!(CookieName, "CookieName", r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$", "the name of a cookie, such as `target`");

impl FromStr for CookieName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if is_token(text) && text.len() <= 64 {
            Ok(CookieName(text.to_owned()))
        } else {
            Err(format!("`{text}` is not the name of a cookie"))
        }
    }
}

impl fmt::Display for CookieName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A method (RFC 9110 §9.1); upper and lower case are different methods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method(pub String);

text_type!(Method, "Method", r"^[!#$%&'*+.^_`|~0-9A-Z-]+$", "a method in upper case, such as `GET`");

impl FromStr for Method {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        match text {
            "CONNECT" => Err("CONNECT is not supported: it opens a tunnel to any address".to_owned()),
            _ if !is_token(text) || text.len() > 32 => Err(format!("`{text}` is not a method")),
            _ if upper != text => Err(format!("methods are written in upper case; write `{upper}`")),
            _ => Ok(Method(upper)),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Statuses that count as success, `200-399` or `200`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange(pub u16, pub u16);

text_type!(
    StatusRange,
    "StatusRange",
    {"type": ["string", "integer"], "pattern": "^[1-5][0-9]{2}(-[1-5][0-9]{2})?$", "minimum": 100, "maximum": 599},
    "a status or a range of them, such as `200` or `200-399`"
);

impl FromStr for StatusRange {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let status = |text: &str| {
            let number: u16 = text.parse().ok()?;
            (text.len() == 3 && (100..600).contains(&number)).then_some(number)
        };
        match parse_range(text, status) {
            Some((first, last)) => Ok(StatusRange(first, last)),
            None => Err(format!("expected statuses such as `200` or `200-399`, found `{text}`")),
        }
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_range(f, self.0, self.1)
    }
}

/// Statuses of gRPC, `13-15` or `14`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcStatusRange(pub u8, pub u8);

text_type!(
    GrpcStatusRange,
    "GrpcStatusRange",
    {"type": ["string", "integer"], "pattern": "^([0-9]|1[0-6])(-([0-9]|1[0-6]))?$", "minimum": 0, "maximum": 16},
    "a status of gRPC or a range of them, such as `14` or `13-15`"
);

impl FromStr for GrpcStatusRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let status = |text: &str| {
            let number: u8 = text.parse().ok()?;
            (number <= 16 && text == number.to_string()).then_some(number)
        };
        match parse_range(text, status) {
            Some((first, last)) => Ok(GrpcStatusRange(first, last)),
            None => Err(format!("expected statuses of gRPC such as `14` or `13-15`, found `{text}`")),
        }
    }
}

impl fmt::Display for GrpcStatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_range(f, self.0, self.1)
    }
}

/// `FIRST-LAST`, or one that is both.
fn parse_range<T: PartialOrd>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    parse(first).zip(parse(last)).filter(|(first, last)| first <= last)
}

fn write_range<T: fmt::Display + PartialEq>(f: &mut fmt::Formatter<'_>, first: T, last: T) -> fmt::Result {
    write!(f, "{first}")?;
    if first == last { Ok(()) } else { write!(f, "-{last}") }
}

/// `tchar` and nothing else, at least one (RFC 9110 §5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

#[cfg(test)]
mod tests;
