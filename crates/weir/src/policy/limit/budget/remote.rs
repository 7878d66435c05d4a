//! Reservations in Redis or Valkey, shared by all gateways: one script call reserves for a call, another one settles it.
//!
//! On a cluster the counts lie in different slots: each has a script call of its own, all at the same time, and if one refuses, the
//! others are settled with nothing.

use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use tokio::task::spawn_local;

use super::super::remote::all;
use super::account::Rule;
use super::calendar::beginnings;
use crate::config::BudgetWindow;
use crate::redis::{Client, Cmd, Failure, Script, Value};
use crate::runtime::clock;
use crate::runtime::deadline::nanos;

static RESERVE: LazyLock<Script> = LazyLock::new(|| Script::new("reserve", include_str!("reserve.lua")));
static SETTLE: LazyLock<Script> = LazyLock::new(|| Script::new("settle", include_str!("settle.lua")));

/// Waits before a settlement is sent again, doubled up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// What a call wants of one count.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) name: Vec<u8>,
    pub(super) rule: Rule,
    pub(super) enforced: bool,
    pub(super) amount: u64,
}

/// What Redis says to a [`Question`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScriptResult {
    /// 1: reserved; 0: too little is left; less: nothing was reserved though there is enough.
    pub(super) result: i64,
    pub(super) left: u64,
    pub(super) reset_us: u64,
    pub(super) retry_us: u64,
}

/// What was used of one count.
#[derive(Debug, Clone)]
pub(super) struct Used {
    pub(super) name: Vec<u8>,
    pub(super) rule: Rule,
    pub(super) amount: u64,
}

/// Reserves from the counts of one call. Times out by itself. `lasts_us`: until a reservation that nobody settles stands as used.
pub(super) async fn reserve(
    client: &Rc<Client>,
    id: &str,
    lasts_us: u64,
    now_us: u64,
    questions: &[Question],
) -> Vec<Result<ScriptResult, Failure>> {
    let check = async |questions: &[Question]| -> Result<Vec<ScriptResult>, Failure> {
        if !client.may_serve(&questions[0].name) {
            return Err(Failure::Unavailable);
        }
        let names: Vec<&[u8]> = questions.iter().map(|question| &*question.name).collect();
        let value = client.script_with(&RESERVE, &names, |cmd| {
            cmd.arg(id).arg(lasts_us);
            questions.iter().for_each(|question| write_question(cmd, question, now_us));
        });
        outcomes(&value.await?)
            .filter(|list| list.len() == questions.len())
            .ok_or_else(|| Failure::Refused("the script returned something other than numbers".to_owned()))
    };
    if client.is_cluster() {
        let each = all(questions.iter().map(|question| check(std::slice::from_ref(question)))).await;
        return each.into_iter().map(|outcome| outcome.map(|list| list[0])).collect();
    }
    match check(questions).await {
        Ok(list) => list.into_iter().map(Ok).collect(),
        Err(failure) => vec![Err(failure); questions.len()],
    }
}

fn write_question(cmd: &mut Cmd, question: &Question, now_us: u64) {
    let numbers = match question.rule {
        Rule::Bucket { burst, interval_ns } => [4, burst, interval_ns, 0, 0, 0],
        Rule::Window { quota, window: BudgetWindow::First(length) } => {
            [1, quota, u64::try_from(length.as_micros()).unwrap_or(u64::MAX), 0, 0, 0]
        }
        Rule::Window { quota, window } => {
            let [before, begin, end, after] = beginnings(window, now_us);
            [2, quota, before, begin, end, after]
        }
    };
    let [kind, rest @ ..] = numbers;
    cmd.arg(kind).arg(u64::from(question.enforced)).arg(question.amount);
    for number in rest {
        cmd.arg(number);
    }
}

fn outcomes(value: &Value) -> Option<Vec<ScriptResult>> {
    let Value::Array(numbers) = value else { return None };
    let number = |value: &Value| match value {
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let unsigned = |value: &Value| u64::try_from(number(value)?).ok();
    let (groups, []) = numbers.as_chunks::<5>() else { return None };
    let outcome = |[result, left, reset, retry, _]: &[Value; 5]| {
        let (left, reset_us, retry_us) = (unsigned(left)?, unsigned(reset)?, unsigned(retry)?);
        Some(ScriptResult { result: number(result)?, left, reset_us, retry_us })
    };
    groups.iter().map(outcome).collect()
}

/// Settles a reservation. What Redis does not take is sent again in the background, until the reservation would have ended anyway.
pub(super) async fn settle(client: Rc<Client>, id: String, used: Vec<Used>, until_ns: u64) {
    let rest = settle_once(&client, &id, used).await;
    if !rest.is_empty() {
        settle_later(client, id, rest, until_ns);
    }
}

/// Settles in the background.
pub(super) fn settle_later(client: Rc<Client>, id: String, mut used: Vec<Used>, until_ns: u64) {
    spawn_local(async move {
        let mut wait = FIRST_WAIT;
        while clock::now_ns().saturating_add(nanos(wait)) < until_ns {
            used = settle_once(&client, &id, used).await;
            if used.is_empty() {
                return;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        tracing::warn!(
            "Redis took no settlement of a call of an AI model for as long as its reservation lasts: it is counted as reserved"
        );
    });
}

fn write_used(cmd: &mut Cmd, id: &str, used: &[Used]) {
    cmd.arg(id);
    for one in used {
        let (kind, b) = match one.rule {
            Rule::Bucket { interval_ns, .. } => (4, interval_ns),
            Rule::Window { .. } => (1, 0),
        };
        cmd.arg(kind).arg(b).arg(one.amount);
    }
}

/// Returns those that are to be sent again.
async fn settle_once(client: &Rc<Client>, id: &str, used: Vec<Used>) -> Vec<Used> {
    let send = async |used: &[Used]| {
        let names: Vec<&[u8]> = used.iter().map(|one| &*one.name).collect();
        client.script_with(&SETTLE, &names, |cmd| write_used(cmd, id, used)).await.is_ok()
    };
    if !client.is_cluster() {
        return if send(&used).await { Vec::new() } else { used };
    }
    let done = all(used.iter().map(|one| send(std::slice::from_ref(one)))).await;
    used.into_iter().zip(done).filter(|(_, done)| !done).map(|(one, _)| one).collect()
}

#[cfg(test)]
mod tests;
