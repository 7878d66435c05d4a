//! `gauge load`

mod progress;
mod summary;
mod tls;
mod websocket;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use gauge::load::chat::{Chat, Shared, Slo, Words};
use gauge::load::workload::{
    self, Arrivals, Body, Closed, Grpc, Open, Operation, Order, Phase, Protocol, Rates, Span, Statuses, WebSocket,
    Workload,
};
use gauge::load::{Generator, Options, PrepareError, Prepared, Url, targets, units};
use gauge::results::Report;
use gauge::tools::{self, ExternalError, Tool};

use crate::cli::{BAD_INPUT, INTERRUPTED, SYSTEM, UNAVAILABLE, UNREADABLE, UNWRITABLE, print};

const EXAMPLES: &str = "\
Examples:
  gauge load http://127.0.0.1:8080/ -c 64 -d 10s          closed loop: 64 users, each waits for its response
  gauge load http://127.0.0.1:8080/ -r 5000 -d 30s        open loop: 5,000/s; latency counts from when a request was due
  gauge load http://127.0.0.1:8080/ -r 500 --poisson      arrivals at random, as those of many users are
  gauge load http://127.0.0.1:8080/upload -m POST -b @image.png -H 'Content-Type: image/png' -n 50 -c 5
                                                          50 uploads of a file, five at a time
  gauge load --targets targets.txt -r 200                 a targets file of vegeta, in its order
  gauge load http://127.0.0.1:8000 --llm MODEL --prompt 100..400 --output 64 -r 20 --slo-ttft 200ms
                                                          streamed chat calls: time to the first token, tokens/s, goodput
  gauge load https://127.0.0.1:8443/ --ca ca.pem --new-connections --resume -c 8
                                                          a connection and a resumed handshake of TLS for each request
  gauge load ws://127.0.0.1:8080/chat -c 64 -d 10s        messages over WebSocket, which the server sends back
  gauge load http://127.0.0.1:9090 --grpc shop.Items/Get -b '{\"id\":7}'
                                                          calls of gRPC; the server's reflection describes the method
  gauge load --workload workload.yaml                     weighted operations, values, captures, phases

In a closed loop a server that stalls hides it: users who wait send nothing. The line \"corrected\" has what the stalls hid.";

/// Loads a server and says how it did.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Load {
    /// Where requests go: http://host:port/path, or https://; messages over WebSocket: ws:// or wss://
    #[arg(required_unless_present_any = ["targets", "workload"])]
    url: Option<String>,
    /// Users of a closed loop; with --rate the most connections at once [default: 64; with --rate 256]
    #[arg(short, long, value_name = "NUMBER")]
    connections: Option<u32>,
    /// How long [default: 10s, without --requests]
    #[arg(short, long, value_parser = units::duration)]
    duration: Option<Duration>,
    /// How many requests, distributed evenly over the connections
    #[arg(short = 'n', long, value_name = "NUMBER", conflicts_with = "rate")]
    requests: Option<u64>,
    /// Open loop: requests per second (5000, 2k/s, 120/min), whether they get responses or not
    #[arg(short, long, value_parser = units::rate)]
    rate: Option<f64>,
    /// With --rate: arrivals at random (Poisson) instead of at even intervals
    #[arg(long, requires = "rate")]
    poisson: bool,
    /// Threads that send [default: one per core]
    #[arg(short, long, value_name = "NUMBER")]
    threads: Option<u32>,
    /// Method [default: GET, or POST with a body]
    #[arg(short, long)]
    method: Option<String>,
    /// Header field, as often as needed
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Body: text, or @FILE
    #[arg(short, long, value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Status that is not an error, or a class of them (404, 2xx), as often as needed [default: 2xx and 3xx]
    #[arg(long, value_name = "STATUS")]
    expect: Vec<Statuses>,
    /// HTTP/2: with prior knowledge, over https by ALPN
    #[arg(long)]
    h2: bool,
    /// With --h2 or --grpc: streams that share a connection
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    streams: u32,
    /// Responses are event streams: measure the time to their first byte, and count events and how many arrive by themselves
    #[arg(long, conflicts_with = "tool")]
    events: bool,
    /// Chat calls of this model (OpenAI's API, streamed) to the URL, or to /v1/chat/completions there
    #[arg(long, value_name = "MODEL", requires = "url", conflicts_with_all = ["method", "body", "tool", "h2", "grpc", "expect", "events"])]
    llm: Option<String>,
    /// With --llm: words of a prompt, or a range of them [default: 100]
    #[arg(long, value_name = "WORDS", requires = "llm")]
    prompt: Option<Words>,
    /// With --llm: max_tokens of a call, or a range of them [default: 64]
    #[arg(long, value_name = "TOKENS", requires = "llm")]
    output: Option<Words>,
    /// With --llm: the share of calls that begin with the same words, and how many words those are (0.5:2000)
    #[arg(long, value_name = "SHARE:WORDS", requires = "llm", value_parser = shared)]
    shared: Option<Shared>,
    /// With --llm: responses as a whole instead of streams
    #[arg(long, requires = "llm")]
    whole: bool,
    /// With --llm: longest time to the first token of a good call
    #[arg(long, value_parser = units::duration, value_name = "TIME", requires = "llm", conflicts_with = "whole")]
    slo_ttft: Option<Duration>,
    /// With --llm: longest mean time between two tokens of a good call
    #[arg(long, value_parser = units::duration, value_name = "TIME", requires = "llm", conflicts_with = "whole")]
    slo_inter_token: Option<Duration>,
    /// gRPC: package.Service/Method; the body is its message as JSON, or `@FILE` with a message a line
    #[arg(long, value_name = "METHOD", requires = "url", conflicts_with = "method")]
    grpc: Option<String>,
    /// With --grpc: the file that describes the method [default: the server's reflection]
    #[arg(long, value_name = "FILE", requires = "grpc")]
    proto: Option<PathBuf>,
    /// With --grpc, of a method that returns a stream: a call with fewer messages is an error
    #[arg(long, value_name = "NUMBER", requires = "grpc")]
    responses: Option<u32>,
    #[command(flatten)]
    tls: tls::TlsOptions,
    #[command(flatten)]
    websocket: websocket::WebSocketOptions,
    /// Time for one request, connecting and handshake included
    #[arg(long, value_parser = units::duration, default_value = "30s")]
    timeout: Duration,
    /// Time before the measured part that is thrown away
    #[arg(long, value_parser = units::duration)]
    warmup: Option<Duration>,
    /// Targets file of vegeta (its http or json format) instead of a URL
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "workload", "method", "body"])]
    targets: Option<PathBuf>,
    /// Workload file (YAML or JSON) instead of a URL and the options above
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "connections", "duration", "requests", "rate", "method", "headers", "body", "expect", "h2", "warmup", "TlsOptions", "WebSocketOptions"])]
    workload: Option<PathBuf>,
    /// Let another generator send: wrk, hey, k6 or jmeter (calls of gRPC: k6); its figures are read back
    #[arg(long, value_name = "NAME", value_parser = tool)]
    tool: Option<Tool>,
    /// With --tool: a k6 script or JMeter plan (.jmx) of your own; it gets URL, HOST and PORT
    #[arg(long, value_name = "FILE", requires = "tool")]
    script: Option<PathBuf>,
    /// Watch the clock for so long before each request is due, instead of sleeping: more punctual, at the price of CPU time
    #[arg(long, value_parser = units::duration, value_name = "TIME", default_value = "0s")]
    busy_poll: Duration,
    /// Seed of everything random
    #[arg(long)]
    seed: Option<u64>,
    /// Write all figures as JSON; - is standard output, and nothing else is then printed there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
    /// Say "begin" on standard output before the measured load and "end" after it, wait each time for a line on standard input, and print nothing else
    /// (for a campaign, which reads meanwhile what processes have used)
    #[arg(long, hide = true, requires = "json")]
    marks: bool,
}

fn shared(text: &str) -> Result<Shared, String> {
    let parts = text.split_once(':').and_then(|(share, words)| Some((share.parse().ok()?, words.parse().ok()?)));
    let (share, words) = parts.ok_or("write the share of calls and a number of words, such as 0.5:2000")?;
    Ok(Shared { share, words })
}

fn tool(name: &str) -> Result<Tool, String> {
    Tool::named(name).ok_or_else(|| "there is wrk, hey, k6 and jmeter".to_owned())
}

/// Why there is no workload.
enum Refusal {
    Input(String),
    Unavailable(String),
    Unreadable(String),
}

impl Refusal {
    fn of(error: &PrepareError) -> Self {
        match error {
            PrepareError::File { .. } => Refusal::Unreadable(error.to_string()),
            PrepareError::Reflection { .. } => Refusal::Unavailable(error.to_string()),
            error => Refusal::Input(error.to_string()),
        }
    }

    fn unreadable(file: &Path, error: &std::io::Error) -> Self {
        Refusal::Unreadable(format!("{}: {error}", file.display()))
    }

    fn report(self) -> ExitCode {
        let (text, code) = match self {
            Refusal::Input(text) => (text, BAD_INPUT),
            Refusal::Unavailable(text) => (text, UNAVAILABLE),
            Refusal::Unreadable(text) => (text, UNREADABLE),
        };
        eprintln!("gauge: {text}");
        ExitCode::from(code)
    }
}

impl Load {
    pub(crate) fn run(self) -> ExitCode {
        let workload = match self.read_workload() {
            Ok(workload) => workload,
            Err(refusal) => return refusal.report(),
        };
        if let Some(tool) = self.tool {
            let own = [("llm", workload.llm.is_some()), ("websocket", workload.websocket.is_some())];
            if let Some((name, _)) = own.into_iter().find(|(_, is_used)| *is_used) {
                return Refusal::Input(format!("`{name}` needs Gauge's own generator; leave out --tool")).report();
            }
            return self.run_tool(tool, &workload);
        }
        let prepared = match Prepared::new(&workload) {
            Ok(prepared) => prepared,
            Err(error) => return Refusal::of(&error).report(),
        };
        let options = Options { threads: self.threads, busy_poll: self.busy_poll };
        let generator = Generator::new(prepared, options);
        let report = match progress::run(&generator, self.quiet, self.marks) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("gauge: {error}");
                return ExitCode::from(SYSTEM);
            }
        };
        self.show(&workload, &report)
    }

    fn run_tool(&self, tool: Tool, workload: &Workload) -> ExitCode {
        let gauge = std::env::current_exe().ok();
        let options = tools::Options { threads: self.threads, script: self.script.clone(), marks: self.marks, gauge };
        let outcome = tools::folder().and_then(|folder| tool.run(workload, &options, folder.path()));
        match outcome {
            Ok(report) => self.show(workload, &report),
            Err(error) => {
                if let ExternalError::Url(error) = &error {
                    return Refusal::of(error).report();
                }
                eprintln!("gauge: {error}");
                ExitCode::from(match error {
                    ExternalError::Missing { .. } | ExternalError::Failed { .. } | ExternalError::Result { .. } => {
                        UNAVAILABLE
                    }
                    ExternalError::Unsupported { .. } | ExternalError::Url(_) => BAD_INPUT,
                    ExternalError::File { .. } => UNREADABLE,
                })
            }
        }
    }

    fn show(&self, workload: &Workload, report: &Report) -> ExitCode {
        let mut summary = Some(summary::text(workload, report));
        if let Some(file) = &self.json {
            let json = match report.to_json() {
                Ok(json) => json + "\n",
                Err(error) => {
                    eprintln!("gauge: cannot write the report as JSON: {error}");
                    return ExitCode::from(SYSTEM);
                }
            };
            if file.as_os_str() == "-" {
                summary = Some(json);
            } else if let Err(error) = std::fs::write(file, json) {
                eprintln!("gauge: {}: {error}", file.display());
                // The figures are not lost.
                print(&summary.unwrap_or_default());
                return ExitCode::from(UNWRITABLE);
            }
        }
        let printed = if self.marks { ExitCode::SUCCESS } else { print(&summary.unwrap_or_default()) };
        if report.truncated.is_some() {
            return ExitCode::from(INTERRUPTED);
        }
        match report.total.requests.responses {
            Some(0) => ExitCode::FAILURE,
            _ => printed,
        }
    }

    fn read_workload(&self) -> Result<Workload, Refusal> {
        let mut workload = match (&self.workload, &self.targets, &self.url) {
            (Some(file), ..) => {
                let text = std::fs::read_to_string(file).map_err(|error| Refusal::unreadable(file, &error))?;
                let mut workload: Workload = serde_saphyr::from_str(&text)
                    .map_err(|error| Refusal::Input(format!("{}: {error}", file.display())))?;
                workload.seed = self.seed.unwrap_or(workload.seed);
                workload.files_from(file.parent().unwrap_or(Path::new("")));
                return Ok(workload);
            }
            (None, Some(file), _) => {
                let text = std::fs::read_to_string(file).map_err(|error| Refusal::unreadable(file, &error))?;
                let folder = file.parent().unwrap_or(Path::new(""));
                let operations = targets::parse(&text, folder)
                    .map_err(|error| Refusal::Input(format!("{}: {error}", file.display())))?;
                self.with(operations, Order::Sequence)
            }
            (None, None, url) => {
                let url = Url::parse(url.as_deref().unwrap_or_default()).map_err(|error| Refusal::of(&error))?;
                match &self.llm {
                    Some(model) if !url.websocket => return self.chat(model, &url),
                    Some(_) => return Err(Refusal::Input("chat calls go to http:// and https:// URLs".to_owned())),
                    None => self.with(vec![self.operation(&url)], Order::Weighted),
                }
            }
        };
        let is_websocket = |operation: &Operation| operation.base.as_ref().is_some_and(|base| base.starts_with("ws"));
        let plan = self.websocket.plan();
        if workload.operations.iter().any(is_websocket) {
            workload.websocket = Some(plan);
        } else if plan != WebSocket::default()
            && (self.grpc.is_none() || WebSocket { messages: None, ..plan } != WebSocket::default())
        {
            let text =
                "--message-size, --text and --messages are for ws:// and wss:// URLs, --messages also for --grpc"
                    .to_owned();
            return Err(Refusal::Input(text));
        }
        let headers = self.header_fields().map_err(Refusal::Input)?;
        for operation in &mut workload.operations {
            operation.headers.extend(headers.clone());
            if operation.expect.is_empty() {
                operation.expect.clone_from(&self.expect);
            }
        }
        Ok(workload)
    }

    fn chat(&self, model: &str, url: &Url) -> Result<Workload, Refusal> {
        let mut chat = Chat::of(model);
        if url.path != "/" {
            chat.path.clone_from(&url.path);
        }
        chat.headers = self.header_fields().map_err(Refusal::Input)?;
        chat.prompt = self.prompt.unwrap_or(chat.prompt);
        chat.output = self.output.unwrap_or(chat.output);
        chat.shared = self.shared;
        chat.stream = !self.whole;
        let slo = Slo { ttft: self.slo_ttft, inter_token: self.slo_inter_token };
        chat.slo = (slo != Slo::default()).then_some(slo);
        let base = url.origin();
        Ok(Workload { base, llm: Some(chat), ..self.with(Vec::new(), Order::Weighted) })
    }

    fn operation(&self, url: &Url) -> Operation {
        let body = self.body.as_ref().map(|body| match body.strip_prefix('@') {
            Some(file) if self.grpc.is_some() => Body::Lines(file.into()),
            Some(file) => Body::File(file.into()),
            None => Body::Text(body.clone()),
        });
        if let Some(method) = &self.grpc {
            let grpc = Some(Grpc {
                proto: self.proto.clone(),
                method: method.clone(),
                messages: self.websocket.messages().map(|messages| u32::try_from(messages).unwrap_or(u32::MAX)),
                responses: self.responses,
            });
            let base = Some(url.origin());
            return Operation { base, body, grpc, ..Operation::get(method, "") };
        }
        let method = self.method.clone().unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
        Operation {
            method: method.clone(),
            base: Some(url.origin()),
            body,
            ..Operation::get(
                &if url.websocket { url.path.clone() } else { format!("{method} {}", url.path) },
                &url.path,
            )
        }
    }

    fn header_fields(&self) -> Result<BTreeMap<String, String>, String> {
        let field = |text: &String| {
            let (name, value) =
                text.split_once(':').ok_or_else(|| format!("`{text}` is not a header field; write 'X-Tier: gold'"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        self.headers.iter().map(field).collect()
    }

    fn with(&self, operations: Vec<Operation>, order: Order) -> Workload {
        let duration = match (self.duration, self.requests) {
            (None, None) => Some(Duration::from_secs(10)),
            (duration, _) => duration,
        };
        let part = |duration: Option<Duration>, requests: Option<u64>| match self.rate {
            Some(rate) => workload::Load::Open(Open {
                rate: Rates::Constant(rate),
                duration: duration.unwrap_or(Duration::from_secs(10)),
                arrivals: if self.poisson { Arrivals::Poisson } else { Arrivals::Constant },
                connections: self.connections.unwrap_or_else(workload::default_connections),
            }),
            None => workload::Load::Closed(Closed {
                users: Span::Constant(self.connections.unwrap_or(64)),
                iterations: requests,
                duration,
                think: None,
            }),
        };
        let load = part(duration, self.requests);
        let load = match self.warmup {
            None => load,
            Some(warmup) => workload::Load::Phases(vec![
                phase("warm-up", true, part(Some(warmup), None)),
                phase("load", false, load),
            ]),
        };
        let mut workload = Workload {
            base: operations.first().and_then(|first| first.base.clone()).unwrap_or_default(),
            operations,
            setup: Vec::new(),
            order,
            load,
            protocol: if self.h2 || self.grpc.is_some() {
                Protocol::Http2 { streams: self.streams }
            } else {
                Protocol::Http1
            },
            timeout: self.timeout,
            seed: self.seed.unwrap_or(0),
            mark: None,
            event_streams: self.events,
            llm: None,
            tls: None,
            new_connections: false,
            websocket: None,
            share: workload::Share::default(),
        };
        self.tls.add_to(&mut workload);
        workload
    }
}

fn phase(name: &str, warmup: bool, load: workload::Load) -> Phase {
    let (closed, open) = match load {
        workload::Load::Closed(closed) => (Some(closed), None),
        workload::Load::Open(open) => (None, Some(open)),
        workload::Load::Phases(_) => (None, None),
    };
    Phase { name: name.to_owned(), warmup, closed, open }
}
