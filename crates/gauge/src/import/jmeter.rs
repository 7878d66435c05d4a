//! JMeter: results files (JTL) in CSV, and the tables of its Aggregate Report and Summary Report.

use std::collections::BTreeMap;

use csv::StringRecord;

use super::text::{finite, latency};
use super::{Format, ReadError};
use crate::results::report::{Errors, Histogram, Latency, LatencyFrom, Measurement, Operation, Phase, Report, Second};

/// What is wrong with a sample, by its response code.
fn add_error(errors: &mut Errors, code: &str) {
    let kind = if code.parse::<u16>().is_ok() {
        &mut errors.status
    } else if code.contains("Timeout") && !code.contains("ConnectTimeout") {
        &mut errors.timeout
    } else if code.contains("Connect") || code.contains("UnknownHost") || code.contains("NoRoute") {
        &mut errors.connect
    } else if code.contains("Protocol") || code.contains("Malformed") {
        &mut errors.invalid_response
    } else {
        &mut errors.reset
    };
    *kind = kind.map(|sum| sum + 1);
    errors.total = errors.total.map(|sum| sum + 1);
}

/// What was seen of one label.
struct Label {
    samples: Vec<u64>,
    statuses: BTreeMap<u16, u64>,
    errors: Errors,
    bytes: (u64, u64),
}

struct Columns {
    time: usize,
    elapsed: usize,
    label: usize,
    code: usize,
    success: usize,
    bytes: Option<usize>,
    sent_bytes: Option<usize>,
    threads: Option<usize>,
}

struct Sample<'r> {
    /// Milliseconds since 1970.
    begun: u64,
    elapsed: u64,
    label: &'r str,
    code: &'r str,
    success: bool,
    bytes: (u64, u64),
    threads: Option<u64>,
}

impl Columns {
    fn of(headers: &StringRecord) -> Result<Self, ReadError> {
        let find = |name: &str| headers.iter().position(|known| known == name);
        let need = |name: &str| find(name).ok_or_else(|| Format::Jtl.broken(format!("the column {name} is missing")));
        Ok(Columns {
            time: need("timeStamp")?,
            elapsed: need("elapsed")?,
            label: need("label")?,
            code: need("responseCode")?,
            success: need("success")?,
            bytes: find("bytes"),
            sent_bytes: find("sentBytes"),
            threads: find("allThreads"),
        })
    }

    fn sample<'r>(&self, record: &'r StringRecord) -> Option<Sample<'r>> {
        let text = |column: usize| record.get(column);
        let number = |column: Option<usize>| column.and_then(text).and_then(|text| text.parse().ok());
        Some(Sample {
            begun: number(Some(self.time))?,
            elapsed: number(Some(self.elapsed))?,
            label: text(self.label)?,
            code: text(self.code)?,
            success: text(self.success)? == "true",
            bytes: (number(self.bytes).unwrap_or(0), number(self.sent_bytes).unwrap_or(0)),
            threads: number(self.threads),
        })
    }
}

const MS: u64 = 1_000_000;

/// One sample a line. The time stamp is that of the beginning, as JMeter writes it unless told otherwise.
pub(super) fn read_jtl(text: &str) -> Result<Report, ReadError> {
    let broken = |problem: String| Format::Jtl.broken(problem);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let columns = Columns::of(&reader.headers().map_err(|error| broken(error.to_string()))?.clone())?;
    let mut labels: Vec<(String, Label)> = Vec::new();
    let mut seconds: BTreeMap<u64, (u64, u64, u64, Histogram)> = BTreeMap::new();
    let (mut first, mut last) = (u64::MAX, 0);
    let (mut threads, mut with_threads) = (0_u64, 0_u64);
    for record in reader.records() {
        let record = record.map_err(|error| broken(error.to_string()))?;
        let Some(sample) = columns.sample(&record) else {
            return Err(broken(format!("line {} is no sample", record.position().map_or(0, |at| at.line()))));
        };
        let end = sample.begun.saturating_add(sample.elapsed);
        (first, last) = (first.min(sample.begun), last.max(end));
        if let Some(count) = sample.threads {
            threads = threads.saturating_add(count);
            with_threads += 1;
        }
        let index = labels.iter().position(|(name, _)| name == sample.label).unwrap_or_else(|| {
            let label = Label { samples: Vec::new(), statuses: BTreeMap::new(), errors: Errors::none(), bytes: (0, 0) };
            labels.push((sample.label.to_owned(), label));
            labels.len() - 1
        });
        let label = &mut labels[index].1;
        let second = seconds.entry(end / 1000).or_insert_with(|| (0, 0, 0, Histogram::with_digits(2)));
        if !sample.success {
            add_error(&mut label.errors, sample.code);
            second.1 += 1;
        }
        // A sample without a status has no response.
        if let Ok(status) = sample.code.parse::<u16>() {
            *label.statuses.entry(status).or_default() += 1;
            label.samples.push(sample.elapsed.saturating_mul(MS));
            label.bytes = (label.bytes.0.saturating_add(sample.bytes.0), label.bytes.1.saturating_add(sample.bytes.1));
            second.0 += 1;
            second.2 += sample.bytes.0;
            second.3.record(sample.elapsed.saturating_mul(MS));
        }
    }
    if labels.is_empty() {
        return Err(broken("it holds no sample".to_owned()));
    }
    let mut report = Report::of("jmeter");
    report.generator.latency_from = Some(LatencyFrom::Sent);
    report.started_unix_ms = Some(first);
    let duration = Some((last - first) as f64 / 1e3).filter(|seconds| *seconds > 0.0);
    report.seconds = seconds
        .into_iter()
        .map(|(second, (responses, errors, received, histogram))| Second {
            at_s: u32::try_from(second.saturating_sub(first / 1000)).unwrap_or(u32::MAX),
            sent: None,
            responses: Some(responses),
            succeeded: None,
            errors: Some(errors),
            dropped: None,
            received_bytes: Some(received),
            latency: Latency::of(histogram),
        })
        .collect();
    let concurrency = (with_threads > 0).then(|| threads as f64 / with_threads as f64);
    let operations: Vec<Operation> =
        labels.into_iter().map(|(name, label)| Operation { name, total: measure(label, duration, &columns) }).collect();
    finish(&mut report, operations, concurrency);
    Ok(report)
}

fn measure(label: Label, duration_s: Option<f64>, columns: &Columns) -> Measurement {
    let mut measurement = Measurement { duration_s, ..Measurement::default() };
    let responses: u64 = label.statuses.values().sum();
    measurement.requests.responses = Some(responses);
    measurement.rate.achieved = duration_s.map(|seconds| responses as f64 / seconds);
    measurement.statuses = Some(label.statuses);
    measurement.errors = label.errors;
    measurement.bytes.received = columns.bytes.map(|_| label.bytes.0);
    measurement.bytes.sent = columns.sent_bytes.map(|_| label.bytes.1);
    measurement.latency = latency(label.samples);
    measurement
}

/// Sums the operations up.
fn finish(report: &mut Report, operations: Vec<Operation>, concurrency: Option<f64>) {
    let mut total: Option<Measurement> = None;
    for operation in &operations {
        match &mut total {
            None => total = Some(operation.total.clone()),
            Some(total) => {
                total.rate.achieved = match (total.rate.achieved, operation.total.rate.achieved) {
                    (Some(a), Some(b)) => Some(a + b),
                    _ => None,
                };
                total.add_counts(&operation.total);
            }
        }
    }
    let mut total = total.unwrap_or_default();
    total.concurrency = concurrency;
    report.phases = vec![Phase {
        name: "load".to_owned(),
        start_s: 0.0,
        measured: true,
        total: total.clone(),
        operations: operations.clone(),
    }];
    report.total = total;
    report.operations = operations;
}

/// A table with a row for each label and one named TOTAL. Times are milliseconds; the table says neither duration nor statuses, so the
/// duration is that which its throughput implies.
pub(super) fn read_table(text: &str) -> Result<Report, ReadError> {
    let broken = |problem: String| Format::JmeterTable.broken(problem);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| broken(error.to_string()))?.clone();
    let find = |name: &str| headers.iter().position(|known| known.trim() == name);
    let (Some(label), Some(samples)) = (find("Label"), find("# Samples")) else {
        return Err(broken("the columns Label and # Samples are missing".to_owned()));
    };
    let mut report = Report::of("jmeter");
    report.generator.latency_from = Some(LatencyFrom::Sent);
    let mut total = None;
    let mut operations = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| broken(error.to_string()))?;
        let number = |name: &str| {
            let text = record.get(find(name)?)?.trim().trim_end_matches('%');
            // "12.3/sec", as its window shows it, counts too.
            finite(text.trim_end_matches("/sec").parse().ok()?)
        };
        let name = record.get(label).unwrap_or_default().to_owned();
        let Some(count) = record.get(samples).and_then(|text| text.trim().parse::<u64>().ok()) else {
            return Err(broken(format!("the row `{name}` has no number of samples")));
        };
        let failed = number("Error %").map(|percent| (percent / 100.0 * count as f64).round() as u64);
        let rate = number("Throughput");
        let mut measurement = Measurement {
            duration_s: rate.filter(|rate| *rate > 0.0).map(|rate| count as f64 / rate),
            latency: Some(Latency {
                count: Some(count),
                min_ms: number("Min"),
                mean_ms: number("Average"),
                stdev_ms: number("Std. Dev."),
                max_ms: number("Max"),
                p50_ms: number("Median"),
                p90_ms: number("90% Line"),
                p95_ms: number("95% Line"),
                p99_ms: number("99% Line"),
                ..Latency::default()
            }),
            ..Measurement::default()
        };
        measurement.requests.responses = Some(count);
        measurement.rate.achieved = rate;
        // Failed samples may have had a response or not; so they are counted once: see `Measurement::ended`.
        measurement.errors = Errors { status: failed, total: failed, ..Errors::default() };
        let kib = |name: &str| Some((number(name)? * 1024.0 * measurement.duration_s?) as u64);
        measurement.bytes.received = kib("Received KB/sec");
        measurement.bytes.sent = kib("Sent KB/sec");
        if name == "TOTAL" {
            total = Some(measurement);
        } else {
            operations.push(Operation { name, total: measurement });
        }
    }
    if operations.is_empty() && total.is_none() {
        return Err(broken("it holds no row".to_owned()));
    }
    match total {
        Some(total) => {
            report.total = total;
            report.operations = operations;
        }
        None => finish(&mut report, operations, None),
    }
    Ok(report)
}
