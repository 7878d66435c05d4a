//! `gauge compare`

use std::path::Path;
use std::process::ExitCode;

use gauge::criterion::Criterion;
use gauge::judgement::{Change, Ends, between};
use gauge::report::{date, read_directory};
use gauge::results::Results;

use super::history::{StoreOption, failed, or_code, table};
use crate::cli::{BAD_INPUT, UNREADABLE, print};

/// One became worse.
const WORSE: u8 = 1;
const NOT_COMPARABLE: u8 = 2;

/// Compares a campaign with an earlier one of the same evaluation: each system with itself, with 95 % confidence intervals.
///
/// Exit codes: 0 same or better, 1 a system is worse, 2 not comparable (another machine or load, too few valid rounds), or only in part.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// The earlier one: an id of the history, or a result directory
    #[arg(value_name = "A")]
    before: String,
    /// The later one
    #[arg(value_name = "B")]
    after: String,
    /// Share by which a system may become worse, such as 5%
    #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = tolerance)]
    tolerance: f64,
    #[command(flatten)]
    store: StoreOption,
}

fn tolerance(text: &str) -> Result<f64, String> {
    gauge::plan::share(text)
}

impl Compare {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.compare())
    }

    fn compare(self) -> Result<ExitCode, ExitCode> {
        let (before, after) = (self.read(&self.before)?, self.read(&self.after)?);
        let found = between(&before, &after);
        let mut text =
            format!("{} of {} and of {}\n", before.name, date(before.started_unix_ms), date(after.started_unix_ms));
        if !found.changes.is_empty() {
            let head = ["api", "workload", "criterion", "change", "95 % interval", "p", "n", ""];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(found.changes.iter().map(|change| self.row(change)));
            text.push_str(&table(&rows));
            let by_baseline = found.changes.iter().any(|change| change.by_baseline);
            text.push_str(if by_baseline {
                "change: of the cost as a multiple of the baseline's in the same round; less is better\n"
            } else {
                "change: of the cost; less is better\n"
            });
        }
        for line in &found.notes {
            text.push_str(&format!("note: {line}\n"));
        }
        for line in &found.not_comparable {
            text.push_str(&format!("not comparable: {line}\n"));
        }
        let (words, code) = match found.ends(self.tolerance) {
            Ends::SameOrBetter => ("same or better", 0),
            Ends::Worse => ("worse", WORSE),
            Ends::NotComparable => ("not comparable", NOT_COMPARABLE),
        };
        text.push_str(&format!("{words}\n"));
        print(&text);
        Ok(ExitCode::from(code))
    }

    fn row(&self, change: &Change) -> Vec<String> {
        let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
        let ratio = &change.result.ratio;
        let interval = match (ratio.low, ratio.high) {
            (Some(low), Some(high)) => format!("{} to {}", percent(low), percent(high)),
            _ => "no bound".to_owned(),
        };
        let judged = if change.is_worse(self.tolerance) {
            "worse"
        } else if change.is_better() {
            "better"
        } else if change.result.declared {
            "worse, within the tolerance"
        } else {
            "no difference declared"
        };
        vec![
            change.system.clone(),
            change.workload.clone(),
            Criterion::named(change.criterion).map_or(change.criterion, |criterion| criterion.title).to_owned(),
            percent(ratio.value),
            interval,
            change.result.p.map_or("-".to_owned(), |p| format!("{p:.4}")),
            ratio.rounds.to_string(),
            judged.to_owned(),
        ]
    }

    fn read(&self, what: &str) -> Result<Results, ExitCode> {
        let dir = Path::new(what);
        if dir.is_dir() {
            return read_directory(dir).map_err(|error| {
                eprintln!("gauge: {error}");
                ExitCode::from(UNREADABLE)
            });
        }
        if what.contains('/') {
            eprintln!("gauge: {what}: there is no such directory; expected one, or an id of `gauge list`");
            return Err(ExitCode::from(BAD_INPUT));
        }
        Ok(self.store.open()?.load(what).map_err(|error| failed(&error))?.results)
    }
}
