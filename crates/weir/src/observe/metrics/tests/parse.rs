//! A reader of expositions that shares nothing with the writer.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Format;

/// An exposition as a reader of the format understands it; see [`parse`].
#[derive(Debug, Default)]
pub(super) struct Parsed {
    /// Family to type.
    pub(super) types: BTreeMap<String, String>,
    /// Sample name with its labels in the order of their names, to value.
    pub(super) samples: BTreeMap<String, f64>,
}

impl Parsed {
    pub(super) fn get(&self, sample: &str) -> Option<f64> {
        self.samples.get(sample).copied()
    }
}

fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b':')
}

/// A strict reader of both formats, written from their descriptions (OpenMetrics 1.0 §4.1, Prometheus text format
/// 0.0.4): every rule that is broken panics with the line.
pub(super) fn parse(text: &str, format: Format) -> Parsed {
    let mut parsed = Parsed::default();
    let (mut family, mut helped) = (String::new(), BTreeSet::new());
    assert!(text.ends_with('\n'), "no line feed at the end");
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == "# EOF" {
            assert_eq!((format, lines.peek()), (Format::OpenMetrics, None), "EOF is the last line of OpenMetrics only");
            break;
        }
        assert!(lines.peek().is_some() || format == Format::Classic, "OpenMetrics ends with EOF");
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(valid_name(name) && !help.is_empty() && helped.insert(name.to_owned()), "{line}");
            family = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert_eq!(name, family, "TYPE follows its HELP: {line}");
            let known: &[&str] = match format {
                Format::OpenMetrics => &["counter", "gauge", "histogram", "info"],
                Format::Classic => &["counter", "gauge", "histogram"],
            };
            assert!(known.contains(&kind), "{line}");
            assert_eq!(parsed.types.insert(family.clone(), kind.to_owned()), None, "family twice: {line}");
        } else {
            assert!(!line.starts_with('#') && !line.is_empty(), "{line}");
            let (name, labels, value) = sample(line);
            let kind = &parsed.types[&family];
            let suffix = name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("outside of its family: {line}"));
            let fits = match (kind.as_str(), format) {
                ("counter", Format::OpenMetrics) => suffix == "_total",
                ("info", _) => suffix == "_info" && value == 1.0,
                ("histogram", _) => ["_bucket", "_sum", "_count"].contains(&suffix),
                _ => suffix.is_empty(),
            };
            assert!(fits, "{kind}: {line}");
            assert!((suffix == "_bucket") == labels.contains_key("le"), "{line}");
            assert!(kind == "gauge" || (value.is_finite() && value >= 0.0), "{line}");
            let labels: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v:?}")).collect();
            let key = if labels.is_empty() { name } else { format!("{name}{{{}}}", labels.join(",")) };
            assert_eq!(parsed.samples.insert(key, value), None, "sample twice: {line}");
        }
    }
    histograms_hold(&parsed);
    parsed
}

/// Name, labels and value of a line.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).expect(line);
    let (name, mut rest) = line.split_at(end);
    assert!(valid_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").expect(line);
            assert!(valid_name(label) && !label.contains(':'), "{line}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().expect(line) {
                    (at, '"') => break at + 1,
                    (_, '\\') => match chars.next().expect(line).1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        _ => panic!("unknown escape: {line}"),
                    },
                    (_, c) => value.push(c),
                }
            };
            assert_eq!(labels.insert(label.to_owned(), value), None, "label twice: {line}");
            rest = &after[end..];
            match rest.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').expect(line);
    let (number, exemplar) = value.split_once(" # ").map_or((value, None), |(number, after)| (number, Some(after)));
    if let Some(exemplar) = exemplar {
        assert!(name.ends_with("_bucket"), "an exemplar outside of a bucket: {line}");
        holds(line, exemplar, labels["le"].parse().expect(line));
    }
    assert!(!number.contains(' '), "no timestamps: {line}");
    (name.to_owned(), labels, number.parse().unwrap_or_else(|_| panic!("{line}")))
}

/// An exemplar has a trace, a value that the bucket holds, and the moment (OpenMetrics 1.0, section 4.6.1).
fn holds(line: &str, exemplar: &str, bound: f64) {
    let (labels, rest) = exemplar.strip_prefix('{').and_then(|text| text.split_once("} ")).expect(line);
    let names: String = labels.split(',').map(|pair| pair.split_once('=').expect(line).0).collect();
    assert!(names.len() + labels.len() <= 128, "{line}");
    let digits = |name: &str, length: usize| {
        let value = labels.split_once(&format!("{name}=\"")).expect(line).1;
        value.find('"') == Some(length) && value[..length].bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    assert!(digits("trace_id", 32) && digits("span_id", 16), "{line}");
    let (value, moment) = rest.split_once(' ').expect(line);
    let [value, moment]: [f64; 2] = [value, moment].map(|text| text.parse().expect(line));
    assert!(value <= bound && moment > 1.7e9, "{line}");
}

/// Buckets ascend, end in +Inf, and agree with the count.
fn histograms_hold(parsed: &Parsed) {
    for (family, _) in parsed.types.iter().filter(|(_, kind)| *kind == "histogram") {
        let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for (key, value) in &parsed.samples {
            let Some(labels) = key.strip_prefix(&format!("{family}_bucket")) else { continue };
            let from = labels.find("le=\"").unwrap();
            let length = labels[from + 4..].find('"').unwrap();
            let le = labels[from + 4..from + 4 + length].parse().unwrap();
            let others = format!("{}{}", &labels[..from], labels[from + 4 + length + 1..].trim_start_matches(','));
            series.entry(others).or_default().push((le, *value));
        }
        for (labels, mut buckets) in series {
            buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(buckets.windows(2).all(|w| w[0].1 <= w[1].1), "{family}{labels}");
            let (le, all) = *buckets.last().unwrap();
            assert_eq!(le, f64::INFINITY);
            let labels = if labels == "{}" { "" } else { &labels };
            assert_eq!(parsed.get(&format!("{family}_count{labels}")), Some(all), "{family}{labels}");
            assert!(parsed.get(&format!("{family}_sum{labels}")).is_some());
        }
    }
}
