//! A run while it goes: from its event stream, a file that `gauge run` writes.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::App;
use super::chart::{Line, chart};
use super::html::{lines, link, tag, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use super::starts::{LOG, Started};
use crate::campaign::events::{self, Event};
use crate::campaign::progress::{Moment, PartMoment};
use crate::verdict::words::{number, size, time};

/// Seconds that charts show.
const SHOWN: usize = 120;
/// Trials that are listed, the latest.
const TRIALS: usize = 12;
/// Bytes at the end of a stream that are read: hours of events.
const TAIL: u64 = 4 << 20;

/// What a stream says, as far as it is shown.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) campaign: Option<String>,
    runs: Option<(usize, usize)>,
    step: String,
    warnings: VecDeque<String>,
    /// The latest last: trial, state, words.
    trials: VecDeque<(String, String, String)>,
    moments: VecDeque<Moment>,
    /// Whether it came to its end; none while it runs.
    pub(super) ended: Option<bool>,
}

impl Live {
    /// Reads the stream of a directory; one that is not there yet is empty.
    pub(super) fn read(directory: &Path) -> Self {
        let mut live = Live::default();
        let Ok(mut file) = File::open(directory.join(events::FILE)) else { return live };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let mut text = Vec::new();
        // Of a long stream the begin, which names the campaign, and the end.
        if length > TAIL {
            let _ = (&mut file).take(TAIL / 64).read_to_end(&mut text);
            text.push(b'\n');
            let _ = file.seek(SeekFrom::Start(length - TAIL));
        }
        let _ = file.take(TAIL).read_to_end(&mut text);
        for line in text.split(|byte| *byte == b'\n') {
            if let Ok(line) = serde_json::from_slice::<events::Line>(line) {
                live.take(line.event);
            }
        }
        live
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Begun { campaign, .. } => (self.campaign, self.ended) = (Some(campaign), None),
            Event::Planned { runs, done } => self.runs = Some((runs, done)),
            Event::Step { step, text } if step == "warning" => push(&mut self.warnings, text, 5),
            Event::Step { step, text } => self.step = format!("{step}: {text}"),
            Event::Trial { trial, round, system, workload, state, reason, rate, p50_ms, p99_ms } => {
                self.step = format!("round {round}, {system}, {workload}");
                let figures = [
                    rate.map(|rate| format!("{}/s", number(rate))),
                    p50_ms.map(|p50| format!("p50 {}", time(p50))),
                    p99_ms.map(|p99| format!("p99 {}", time(p99))),
                    reason.map(|reason| reason.lines().next().unwrap_or_default().to_owned()),
                ];
                let figures: Vec<String> = figures.into_iter().flatten().collect();
                let colon = if figures.is_empty() { "" } else { ": " };
                let words = format!("round {round}, {system}, {workload}{colon}{}", figures.join(", "));
                self.trials.retain(|(known, ..)| *known != trial);
                push(&mut self.trials, (trial, state, words), TRIALS);
            }
            Event::Moment(moment) => push(&mut self.moments, moment, SHOWN),
            Event::Ended { complete } => self.ended = Some(complete),
            Event::Unknown => {}
        }
    }

    /// What changes while it runs.
    pub(super) fn html(&self) -> String {
        let mut out = String::new();
        let last = self.moments.back();
        let load = last.and_then(|moment| moment.load.as_ref());
        let of = |part: Option<PartMoment>| part.map_or("—".to_owned(), |part| format!("{:.0} %", part.cpu_percent));
        let (runs, done) = self.runs.unwrap_or_default();
        let _ = write!(
            out,
            "<p><label for=\"turns\">{done} of {runs} system runs</label> <progress id=\"turns\" max=\"{}\" value=\"{done}\"></progress></p>\
             <p>{}</p>",
            runs.max(1),
            text(&self.step)
        );
        let tiles = [
            ("Responses/s", load.map_or("—".to_owned(), |load| number(load.rate.round()))),
            ("p50", load.and_then(|load| load.p50_ms).map_or("—".to_owned(), time)),
            ("p99", load.and_then(|load| load.p99_ms).map_or("—".to_owned(), time)),
            ("Errors", load.map_or("—".to_owned(), |load| number(load.errors as f64))),
            ("CPU, system", of(last.and_then(|moment| moment.system))),
            ("CPU, upstream", of(last.and_then(|moment| moment.upstream))),
            ("Phase", load.and_then(|load| load.phase.clone()).unwrap_or_else(|| "—".to_owned())),
        ];
        let tile = |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", text(value));
        let _ = write!(out, "<dl class=\"tiles\">{}</dl>", tiles.iter().map(tile).collect::<String>());
        out.push_str(&self.charts());
        for warning in &self.warnings {
            let _ = write!(out, "<p class=\"note\">{}</p>", text(warning));
        }
        if !self.trials.is_empty() {
            out.push_str("<h2>Trials</h2><ul>");
            for (_, state, words) in self.trials.iter().rev() {
                let _ = write!(out, "<li>{} {}</li>", tag(state), text(words));
            }
            out.push_str("</ul>");
        }
        out
    }

    fn charts(&self) -> String {
        if self.moments.is_empty() {
            return String::new();
        }
        let of = |pick: &dyn Fn(&Moment) -> Option<f64>| self.moments.iter().map(pick).collect::<Vec<_>>();
        let line = |name, pick: &dyn Fn(&Moment) -> Option<f64>| Line { name, values: of(pick) };
        let ends = (format!("{} s ago", self.moments.len()), "now");
        let ends = (ends.0.as_str(), ends.1);
        let rate = [line("responses/s", &|moment| moment.load.as_ref().map(|load| load.rate))];
        let latency =
            [line("p50", &|moment| moment.load.as_ref()?.p50_ms), line("p99", &|moment| moment.load.as_ref()?.p99_ms)];
        let cpu = |part: Option<PartMoment>| part.map(|part| part.cpu_percent);
        let memory = |part: Option<PartMoment>| part.map(|part| part.memory_bytes as f64);
        let cpus = [
            line("system", &|moment| cpu(moment.system)),
            line("upstream", &|moment| cpu(moment.upstream)),
            line("generator", &|moment| cpu(moment.generator)),
        ];
        let memories =
            [line("system", &|moment| memory(moment.system)), line("upstream", &|moment| memory(moment.upstream))];
        let charts = [
            chart("Rate", &rate, number, ends, &[]),
            chart("Latency", &latency, time, ends, &[]),
            chart("CPU, 100 % is one processor", &cpus, |value| format!("{value:.0} %"), ends, &[]),
            chart("Memory", &memories, size, ends, &[]),
        ];
        format!("<div class=\"charts\">{}</div>", charts.concat())
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, most: usize) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(item);
}

/// Says that the program does not respond; the script shows it.
const LOST: &str = "<p class=\"failed\" id=\"lost\" role=\"alert\" hidden>There is no connection to gauge ui.</p>";

/// A campaign of the history that runs.
pub(super) fn of_campaign(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let head = app.history()?.head(request.part(1))?;
    let path = format!("/runs/{}", url(&head.id));
    if head.status != "running" {
        return Ok(Shown::See(path));
    }
    // One that was started here can be stopped here.
    if let Some(start) = app.starts.all().into_iter().find(|start| start.out == Path::new(&head.directory)) {
        return Ok(Shown::See(format!("/started/{}", url(&start.key))));
    }
    let here = head.host == rustix::system::uname().nodename().to_string_lossy();
    let live = if here { Live::read(Path::new(&head.directory)) } else { Live::default() };
    let mut body = LOST.to_owned();
    if !here {
        let _ = write!(body, "<p class=\"note\">It runs on {}, and its events are there.</p>", text(&head.host));
    }
    let _ = write!(body, "<div id=\"live\">{}</div>", live.html());
    Ok(Shown::Page(Page { live: true, ..Page::new(head.results.name, "/runs", body) }))
}

/// A program that was started here.
pub(super) fn of_start(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let key = request.part(1);
    let Some(start) = app.starts.get(key) else {
        return Err(Failure::not_found("Nothing of this name was started since gauge ui began."));
    };
    let live = Live::read(&start.out);
    let log = log(&start.out);
    let runs = start.code.is_none();
    let state = match start.code {
        None if start.stopped => "stopping",
        None => "running",
        Some(130) => "stopped",
        Some(0 | 99) => "done",
        Some(_) => "failed",
    };
    let mut body =
        format!("{LOST}<p>{} <span id=\"said\" role=\"status\">{}</span></p>", tag(state), text(&said(&start)));
    if let Some(campaign) = live.campaign.as_ref().filter(|_| !runs) {
        let _ = write!(body, "<p>{}</p>", link(&format!("/runs/{}", url(campaign)), "Results of this run"));
    }
    if runs {
        let _ = write!(
            body,
            "<form method=\"post\" action=\"/started/{}/stop\">{}<button>Stop</button></form>",
            url(key),
            request.secret()
        );
    }
    let _ = write!(
        body,
        "<div id=\"live\">{}<h2>What the program says</h2>{}</div>",
        live.html(),
        lines(&log, "Output of gauge run")
    );
    Ok(Shown::Page(Page { live: runs, ..Page::new(start.name, "/evaluations", body) }))
}

fn said(start: &Started) -> String {
    match start.code {
        None if start.stopped => "It was told to stop.".to_owned(),
        None => format!("{} runs.", start.file),
        Some(0) => "It has ended.".to_owned(),
        Some(99) => "It has ended; a threshold was crossed or could not be checked.".to_owned(),
        Some(130) => "It was stopped; start the evaluation again for a new run.".to_owned(),
        Some(code) => format!("It ended with exit code {code}; its output says why."),
    }
}

/// The last lines of what a program said.
fn log(directory: &Path) -> String {
    const SHOWN: u64 = 16 << 10;
    let Ok(mut file) = File::open(directory.join(LOG)) else { return String::new() };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(SHOWN)));
    let mut bytes = Vec::new();
    let _ = file.take(SHOWN).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
