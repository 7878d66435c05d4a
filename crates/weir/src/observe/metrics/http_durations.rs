//! `http.server.request.duration` and `http.client.request.duration`: the stable metrics of OpenTelemetry's HTTP conventions, for collectors only.
//! `/metrics` has the same durations by route and upstream.
//!
//! Clients choose nothing that makes a series: methods that are not known are `_OTHER`, routes and servers have the names of the configuration. Statuses
//! of upstreams may be anything, so the number of series has a bound; what is above it is counted in one series, as OpenTelemetry's SDKs do.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use h1::Method;
use telemetry::metrics::{Attribute, Kind, Metrics as Otlp};

use super::histogram::{ADVISED, Histogram, Total};
use super::{OneThread, Process, Shard};
use crate::runtime::lock::lock;

/// Series of one metric, as many as SDKs have by default.
const MOST: usize = 2000;

/// What a response to a client is counted by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerSeries {
    /// Method of the request.
    pub method: Method,
    /// Path pattern of the route; none without one.
    pub route: Option<Arc<str>>,
    /// Status that was sent, or that would have been.
    pub status: u16,
    /// Why the request was not served as requested.
    pub error: Option<&'static str>,
    /// `1.0`, `1.1` or `2`.
    pub version: &'static str,
    /// `http` or `https`.
    pub scheme: &'static str,
}

/// What an attempt at an upstream is counted by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientSeries {
    /// Method of the request.
    pub method: Method,
    /// Host and port, or another name, by which the configuration knows the target.
    pub server: Arc<str>,
    /// Status of the response; 0 without one.
    pub status: u16,
    /// Why there is no response, or no complete one.
    pub error: Option<&'static str>,
    /// `1.1` or `2`; none where no connection could be made.
    pub version: Option<&'static str>,
    /// `http` or `https`.
    pub scheme: &'static str,
}

/// The histograms of all workers, by series and worker; those above the bound under none.
#[derive(Debug)]
struct All<S>(Mutex<HashMap<Option<S>, OfWorkers>>);

/// Histograms with the numbers of their workers.
type OfWorkers = Vec<(usize, Arc<Histogram>)>;

impl<S> Default for All<S> {
    fn default() -> Self {
        All(Mutex::default())
    }
}

impl<S: Clone + Eq + Hash> All<S> {
    fn of(&self, series: Option<&S>, worker: usize) -> Arc<Histogram> {
        let mut all = lock(&self.0);
        let series = series.cloned();
        let series = if all.len() < MOST || all.contains_key(&series) { series } else { None };
        let workers = all.entry(series).or_default();
        if let Some((_, histogram)) = workers.iter().find(|(index, _)| *index == worker) {
            return histogram.clone();
        }
        let histogram = Arc::<Histogram>::default();
        workers.push((worker, histogram.clone()));
        histogram
    }

    fn totals(&self) -> Vec<(Option<S>, Total)> {
        let total = |(series, workers): (&Option<S>, &OfWorkers)| {
            let mut total = Total::default();
            workers.iter().for_each(|(_, histogram)| total.add(histogram));
            (series.clone(), total)
        };
        lock(&self.0).iter().map(total).collect()
    }
}

/// Both metrics of the process.
#[derive(Debug, Default)]
pub(super) struct Durations {
    server: All<ServerSeries>,
    client: All<ClientSeries>,
}

/// The histograms that one worker has met.
struct Known<S> {
    by_series: RefCell<HashMap<S, Arc<Histogram>, RandomState>>,
    others: OnceCell<Arc<Histogram>>,
}

impl<S: Clone + Eq + Hash> Known<S> {
    fn observe(&self, all: &All<S>, worker: usize, series: S, ns: u64) {
        let mut known = self.by_series.borrow_mut();
        if let Some(histogram) = known.get(&series) {
            return histogram.observe(&ADVISED, ns);
        }
        if known.len() >= MOST {
            return self.others.get_or_init(|| all.of(None, worker)).observe(&ADVISED, ns);
        }
        let histogram = all.of(Some(&series), worker);
        histogram.observe(&ADVISED, ns);
        known.insert(series, histogram);
    }
}

impl<S> Default for Known<S> {
    fn default() -> Self {
        Known { by_series: RefCell::default(), others: OnceCell::new() }
    }
}

/// Durations of one worker.
pub struct HttpDurations {
    process: Arc<Process>,
    worker: usize,
    server: Known<ServerSeries>,
    client: Known<ClientSeries>,
    one_thread: OneThread,
}

impl HttpDurations {
    /// A response to a client ended.
    pub fn server(&self, series: ServerSeries, ns: u64) {
        self.server.observe(&self.process.http_durations.server, self.worker, series, ns);
    }

    /// An attempt at an upstream ended.
    pub fn client(&self, series: ClientSeries, ns: u64) {
        self.client.observe(&self.process.http_durations.client, self.worker, series, ns);
    }
}

impl Shard {
    /// Where the worker counts durations for a collector.
    pub fn http_durations(&self) -> HttpDurations {
        HttpDurations {
            process: self.process.clone(),
            worker: self.worker,
            server: Known::default(),
            client: Known::default(),
            one_thread: PhantomData,
        }
    }
}

/// Writes both metrics.
pub(super) fn write(durations: &Durations, out: &mut Otlp) {
    let server = durations.server.totals();
    let server = server.iter().map(|(series, total)| (series.as_ref().map(ServerSeries::attributes), total));
    write_family(out, "http.server.request.duration", "Duration of HTTP server requests.", server);
    let client = durations.client.totals();
    let client = client.iter().map(|(series, total)| (series.as_ref().map(ClientSeries::attributes), total));
    write_family(out, "http.client.request.duration", "Duration of HTTP client requests.", client);
}

type Attributes<'s> = Vec<(&'static str, Attribute<'s>)>;

fn write_family<'s>(
    out: &mut Otlp,
    name: &str,
    help: &str,
    all: impl Iterator<Item = (Option<Attributes<'s>>, &'s Total)>,
) {
    let mut points = out.points();
    for (attributes, total) in all {
        let attributes = attributes.unwrap_or_else(|| vec![("otel.metric.overflow", Attribute::Flag(true))]);
        let (bounds, counts): (Vec<f64>, Vec<u64>) = total.buckets(&ADVISED).into_iter().unzip();
        let finite = &bounds[..bounds.len() - 1];
        points.histogram(&attributes, (finite, &counts), total.sum_seconds(), &[]);
    }
    out.add(name, help, "s", Kind::Histogram, points);
}

impl ServerSeries {
    fn attributes(&self) -> Attributes<'_> {
        let mut attributes = vec![
            ("http.request.method", Attribute::Text(name_of(self.method))),
            ("network.protocol.version", Attribute::Text(self.version)),
            ("url.scheme", Attribute::Text(self.scheme)),
        ];
        if let Some(route) = &self.route {
            attributes.push(("http.route", Attribute::Text(route)));
        }
        add_result(&mut attributes, self.status, self.error, 500);
        attributes
    }
}

impl ClientSeries {
    fn attributes(&self) -> Attributes<'_> {
        let mut attributes = vec![
            ("http.request.method", Attribute::Text(name_of(self.method))),
            ("url.scheme", Attribute::Text(self.scheme)),
        ];
        let port = self.server.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        match port {
            Some((host, port)) => {
                let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
                attributes.push(("server.address", Attribute::Text(host)));
                attributes.push(("server.port", Attribute::Number(port.into())));
            }
            None => attributes.push(("server.address", Attribute::Text(&self.server))),
        }
        if let Some(version) = self.version {
            attributes.push(("network.protocol.version", Attribute::Text(version)));
        }
        add_result(&mut attributes, self.status, self.error, 400);
        attributes
    }
}

/// Statuses from `failures` on are errors.
fn add_result(attributes: &mut Attributes<'_>, status: u16, error: Option<&'static str>, failures: u16) {
    if status > 0 {
        attributes.push(("http.response.status_code", Attribute::Number(status.into())));
    }
    match error {
        Some(error) => attributes.push(("error.type", Attribute::Text(error))),
        None if status >= failures => attributes.push(("error.type", Attribute::Decimal(status.into()))),
        None => {}
    }
}

fn name_of(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Patch => "PATCH",
        Method::Options => "OPTIONS",
        Method::Trace => "TRACE",
        Method::Other => "_OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Metrics;

    fn series(route: &str, status: u16) -> ServerSeries {
        ServerSeries {
            method: Method::Get,
            route: Some(route.into()),
            status,
            error: None,
            version: "1.1",
            scheme: "http",
        }
    }

    #[test]
    fn workers_are_added_up_and_one_that_is_started_again_goes_on() {
        let metrics = Metrics::new();
        for worker in [0, 1, 1] {
            metrics.shard(worker).http_durations().server(series("/a", 200), 7_000_000);
        }
        let [(Some(found), total)] = &metrics.0.http_durations.server.totals()[..] else { panic!() };
        assert_eq!((found, total.count()), (&series("/a", 200), 3));
        let counts: Vec<u64> = total.buckets(&ADVISED).iter().map(|(_, count)| *count).collect();
        assert_eq!((counts.len(), counts[1]), (15, 3), "5 to 10 ms");
    }

    #[test]
    fn the_number_of_series_has_a_bound() {
        let metrics = Metrics::new();
        let workers = [metrics.shard(0).http_durations(), metrics.shard(1).http_durations()];
        for round in 0..2 {
            for route in 0..MOST + 100 {
                workers[(route + round) % 2].server(series(&format!("/{route}"), 200), 1);
            }
        }
        let totals = metrics.0.http_durations.server.totals();
        assert!(totals.len() <= MOST + 1, "{}", totals.len());
        let counted: u64 = totals.iter().map(|(_, total)| total.count()).sum();
        assert_eq!(counted, 2 * (MOST as u64 + 100), "nothing is lost");
        let others = totals.iter().find(|(series, _)| series.is_none()).expect("a series for the rest");
        // A worker that knows as many series as there may be looks no further.
        assert!(others.1.count() >= 200, "{}", others.1.count());
        let known = workers[0].server.by_series.borrow().len();
        assert!(known <= MOST, "{known}");
    }

    #[test]
    fn servers_have_a_name_and_a_port() {
        let of = |server: &str| {
            let series = ClientSeries {
                method: Method::Other,
                server: server.into(),
                status: 404,
                error: None,
                version: None,
                scheme: "https",
            };
            format!("{:?}", series.attributes())
        };
        for (server, expected) in [
            ("app.internal:8001", r#"("server.address", Text("app.internal")), ("server.port", Number(8001))"#),
            ("[::1]:80", r#"("server.address", Text("::1")), ("server.port", Number(80))"#),
            ("unix:/run/app.sock", r#"("server.address", Text("unix:/run/app.sock"))"#),
        ] {
            assert!(of(server).contains(expected), "{}", of(server));
        }
        assert!(of("a:1").contains(r#"("http.response.status_code", Number(404)), ("error.type", Decimal(404))"#));
    }
}
