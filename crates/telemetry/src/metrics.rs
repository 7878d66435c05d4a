//! Metrics as OTLP encodes them (`opentelemetry/proto/metrics/v1/metrics.proto`), cumulative since the start of the process.

use crate::context::{SpanId, TraceId};
use crate::protobuf::{bytes, fixed64, number, open};

/// Encoded metrics of one moment.
#[derive(Debug)]
pub struct Metrics {
    encoded: Vec<u8>,
    points: u64,
    /// Start of the process, and the moment: nanoseconds since the Unix epoch.
    since_ns: u64,
    now_ns: u64,
}

/// What a family of values is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It goes up and down.
    Gauge,
    /// It only grows.
    Counter,
    /// Counts by bucket.
    Histogram,
}

/// The value of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A count.
    Count(u64),
    /// Anything else.
    Float(f64),
}

/// The value of an attribute of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attribute<'a> {
    /// Text.
    Text(&'a str),
    /// A whole number as text.
    Decimal(u32),
    /// A whole number.
    Number(u32),
    /// Yes or no.
    Flag(bool),
}

/// A value of a histogram with its trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The trace that was recorded.
    pub trace: TraceId,
    /// The span in it.
    pub span: SpanId,
    /// In the unit of the histogram.
    pub value: f64,
    /// When, in nanoseconds since the Unix epoch.
    pub unix_ns: u64,
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u64 = 2;

impl Metrics {
    /// Metrics at `now_ns` of a process that started at `since_ns`.
    pub fn new(since_ns: u64, now_ns: u64) -> Self {
        Metrics { encoded: Vec::new(), points: 0, since_ns, now_ns: now_ns.max(since_ns) }
    }

    /// A family of values. One without any is left out.
    pub fn add(&mut self, name: &str, help: &str, unit: &str, kind: Kind, points: Points) {
        if points.count == 0 {
            return;
        }
        self.points += points.count;
        let mut data = points.encoded;
        if kind != Kind::Gauge {
            number(&mut data, 2, CUMULATIVE);
        }
        if kind == Kind::Counter {
            // Monotonic.
            number(&mut data, 3, 1);
        }
        let mut metric = Vec::with_capacity(data.len() + 128);
        bytes(&mut metric, 1, name.as_bytes());
        bytes(&mut metric, 2, help.as_bytes());
        bytes(&mut metric, 3, unit.as_bytes());
        let field = match kind {
            Kind::Gauge => 5,
            Kind::Counter => 7,
            Kind::Histogram => 9,
        };
        bytes(&mut metric, field, &data);
        bytes(&mut self.encoded, 2, &metric);
    }

    /// Where the values of a family go.
    pub fn points(&self) -> Points {
        Points { encoded: Vec::new(), count: 0, since_ns: self.since_ns, now_ns: self.now_ns }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.points
    }

    /// The metrics, for [`Envelope::request`](crate::export::Envelope::request).
    pub fn bytes(&self) -> &[u8] {
        &self.encoded
    }
}

/// The values of one family.
#[derive(Debug)]
pub struct Points {
    encoded: Vec<u8>,
    count: u64,
    since_ns: u64,
    now_ns: u64,
}

impl Points {
    /// One value of a counter or gauge.
    pub fn number(&mut self, labels: &[(&str, Attribute<'_>)], value: Number) {
        let mut point = self.begin();
        match value {
            // The protocol's whole numbers are signed.
            Number::Count(count) => fixed64(&mut point, 6, count.min(i64::MAX as u64)),
            Number::Float(value) => fixed64(&mut point, 4, value.to_bits()),
        }
        self.end(point, 7, labels);
    }

    /// One histogram: finite upper bounds, counts of each bucket with one more for what lies above, their sum, and exemplars.
    pub fn histogram(
        &mut self,
        labels: &[(&str, Attribute<'_>)],
        (bounds, counts): (&[f64], &[u64]),
        sum: f64,
        exemplars: &[Exemplar],
    ) {
        let mut point = self.begin();
        fixed64(&mut point, 4, counts.iter().sum());
        fixed64(&mut point, 5, sum.to_bits());
        open(&mut point, 6, counts.len() * 8);
        counts.iter().for_each(|count| point.extend_from_slice(&count.to_le_bytes()));
        open(&mut point, 7, bounds.len() * 8);
        bounds.iter().for_each(|bound| point.extend_from_slice(&bound.to_le_bytes()));
        for exemplar in exemplars {
            let mut one = Vec::with_capacity(48);
            fixed64(&mut one, 2, exemplar.unix_ns);
            fixed64(&mut one, 3, exemplar.value.to_bits());
            bytes(&mut one, 4, &exemplar.span.0.to_be_bytes());
            bytes(&mut one, 5, &exemplar.trace.0.to_be_bytes());
            bytes(&mut point, 8, &one);
        }
        self.end(point, 9, labels);
    }

    fn begin(&self) -> Vec<u8> {
        let mut point = Vec::with_capacity(128);
        fixed64(&mut point, 2, self.since_ns);
        fixed64(&mut point, 3, self.now_ns);
        point
    }

    /// Labels are the field of this number.
    fn end(&mut self, mut point: Vec<u8>, field: u32, labels: &[(&str, Attribute<'_>)]) {
        for (key, value) in labels {
            let (mut any, mut pair) = (Vec::new(), Vec::new());
            match value {
                Attribute::Text(text) => bytes(&mut any, 1, text.as_bytes()),
                Attribute::Decimal(value) => bytes(&mut any, 1, value.to_string().as_bytes()),
                Attribute::Flag(flag) => number(&mut any, 2, u64::from(*flag)),
                Attribute::Number(value) => number(&mut any, 3, u64::from(*value)),
            }
            bytes(&mut pair, 1, key.as_bytes());
            bytes(&mut pair, 2, &any);
            bytes(&mut point, field, &pair);
        }
        bytes(&mut self.encoded, 1, &point);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
    use opentelemetry_proto::tonic::metrics::v1::{Metric, exemplar, metric::Data};
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::export::Envelope;

    /// As the published messages read it.
    fn read(metrics: &Metrics) -> Vec<Metric> {
        let envelope = Envelope::new([("service.name", "weir")], "weir", "1");
        let request = ExportMetricsServiceRequest::decode(&*envelope.request([metrics.bytes()])).expect("a message");
        let scope = &request.resource_metrics[0].scope_metrics[0];
        assert_eq!(scope.scope.as_ref().unwrap().name, "weir");
        scope.metrics.clone()
    }

    #[test]
    fn families_are_what_the_published_messages_read() {
        let mut metrics = Metrics::new(1_000, 2_000);
        let mut points = metrics.points();
        let labels = [
            ("route", Attribute::Text("a")),
            ("empty", Attribute::Text("")),
            ("status", Attribute::Number(503)),
            ("code", Attribute::Decimal(503)),
            ("overflow", Attribute::Flag(true)),
        ];
        points.number(&labels, Number::Count(u64::MAX));
        points.number(&[], Number::Float(-0.5));
        metrics.add("requests", "Requests", "1", Kind::Counter, points);
        metrics.add("nothing", "Nothing", "", Kind::Gauge, metrics.points());
        let mut points = metrics.points();
        points.number(&[], Number::Count(7));
        metrics.add("open", "Open", "", Kind::Gauge, points);
        let mut points = metrics.points();
        let exemplar = Exemplar { trace: TraceId(0x0a0b), span: SpanId(0x0c0d), value: 3.5, unix_ns: 1_500 };
        points.histogram(&[("use", Attribute::Text("cache"))], (&[0.5, 2.0], &[1, 0, 3]), 12.5, &[exemplar]);
        metrics.add("duration", "Duration", "s", Kind::Histogram, points);
        assert_eq!(metrics.count(), 4);
        let [requests, open, duration] = &*read(&metrics) else { panic!() };
        assert_eq!((&*requests.name, &*requests.description, &*requests.unit), ("requests", "Requests", "1"));
        let Some(Data::Sum(sum)) = &requests.data else { panic!("{requests:?}") };
        assert_eq!((sum.aggregation_temporality, sum.is_monotonic, sum.data_points.len()), (2, true, 2));
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000, 2_000));
        assert_eq!(point.value, Some(Value::AsInt(i64::MAX)));
        let labels = point.attributes.iter().map(|one| (&*one.key, one.value.clone().unwrap().value.unwrap()));
        let text = |text: &str| Any::StringValue(text.to_owned());
        assert!(labels.eq([
            ("route", text("a")),
            ("empty", text("")),
            ("status", Any::IntValue(503)),
            ("code", text("503")),
            ("overflow", Any::BoolValue(true)),
        ]));
        assert_eq!(sum.data_points[1].value, Some(Value::AsDouble(-0.5)));
        let Some(Data::Gauge(gauge)) = &open.data else { panic!("{open:?}") };
        assert_eq!(gauge.data_points[0].value, Some(Value::AsInt(7)));
        let Some(Data::Histogram(histogram)) = &duration.data else { panic!("{duration:?}") };
        assert_eq!(histogram.aggregation_temporality, 2);
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.sum, &*point.attributes[0].key), (4, Some(12.5), "use"));
        assert_eq!((&*point.bucket_counts, &*point.explicit_bounds), (&[1, 0, 3][..], &[0.5, 2.0][..]));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000, 2_000));
        let [exemplar] = &*point.exemplars else { panic!("{point:?}") };
        assert_eq!((exemplar.time_unix_nano, exemplar.value), (1_500, Some(exemplar::Value::AsDouble(3.5))));
        assert_eq!(exemplar.trace_id, [&[0; 14][..], &[0x0a, 0x0b]].concat());
        assert_eq!(exemplar.span_id, [&[0; 6][..], &[0x0c, 0x0d]].concat());
    }

    proptest! {
        #[test]
        fn whatever_is_counted_is_a_message(name: String, label: String, values: Vec<u64>) {
            let mut metrics = Metrics::new(5, 4);
            let mut points = metrics.points();
            values.iter().for_each(|value| points.number(&[("l", Attribute::Text(&label))], Number::Count(*value)));
            metrics.add(&name, &label, "", Kind::Gauge, points);
            prop_assert_eq!(metrics.count(), values.len() as u64);
            prop_assert_eq!(read(&metrics).len(), usize::from(!values.is_empty()));
        }
    }
}
