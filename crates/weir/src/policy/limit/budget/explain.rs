//! Limits of tokens and money for operators, to read and to reset: `/limits` of the admin listener.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::explain::{BadQuestion, Question, key_bytes, part_text, tiers};
use super::super::remote::{Remote, Workers, on_worker};
use super::super::{Decision, Key, Limits};
use super::account::Account;
use super::{Budget, BudgetUnit, micros};
use crate::config::{BudgetAlgorithm, LimitStore};
use crate::observe::metrics::Exposition;
use crate::redis::{Cmd, Failure, Value as RedisValue};

impl Limits {
    /// Appends the limits of tokens and money that a question is about, with what is known of the key where it names one.
    pub(in super::super) fn explain_budgets(
        &self,
        question: &Question,
        list: &mut Vec<Value>,
    ) -> Result<(), BadQuestion> {
        let now_us = micros(self.now());
        for budget in self.budgets_of(question) {
            let mut entry = describe(budget);
            match self.budget_key(budget, &question.key) {
                Ok(Some(key)) => {
                    entry["state"] = state(budget, budget.table.look(&budget.own, key.0, now_us));
                    entry["hash"] = key.short().into();
                }
                Ok(None) => {}
                // Another limit may be meant.
                Err(error) if question.limit.is_some() => return Err(error),
                Err(why) => entry["note"] = why.to_string().into(),
            }
            list.push(entry);
        }
        Ok(())
    }

    /// Forgets what was charged to a key; adds the names of limits that had something to forget, and says how many have such a key.
    pub(in super::super) fn reset_budgets(
        &self,
        question: &Question,
        names: &mut Vec<String>,
    ) -> Result<usize, BadQuestion> {
        let now_us = micros(self.now());
        let mut fitting = 0;
        for budget in self.budgets_of(question) {
            match self.budget_key(budget, &question.key) {
                Ok(Some(key)) => {
                    fitting += 1;
                    if budget.table.reset(&budget.own, key.0, now_us) {
                        names.push(budget.spec.name.to_string());
                    }
                }
                Ok(None) => {}
                Err(error) if question.limit.is_some() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(fitting)
    }

    /// Puts what Redis knows of a key into the response, in place of what the process itself knows.
    pub(in super::super) async fn explain_remote_budgets(
        &self,
        workers: &impl Workers,
        question: &Question,
        result: &mut Value,
    ) {
        for (budget, key) in self.remote_budgets(question) {
            let name = budget.name(key);
            let found = on_worker(workers, async move |remote| look(&remote, &name).await).await;
            let Some(list) = result["limits"].as_array_mut() else { return };
            let is_it =
                |entry: &&mut Value| entry["name"] == *budget.spec.name && entry["tiers"] == tiers(&budget.spec.tiers);
            let Some(entry) = list.iter_mut().find(is_it) else { continue };
            match found {
                Ok(mut account) => {
                    let (decision, _) = account.reserve(&budget.rule, 0, micros(self.now()));
                    entry["state"] = state(&budget, decision);
                }
                Err(failure) => entry["note"] = format!("{failure}: this is what the gateway itself counts").into(),
            }
        }
    }

    /// Forgets in Redis what was charged to a key. Calls in flight are not settled any more.
    pub(in super::super) async fn reset_remote_budgets(
        &self,
        workers: &impl Workers,
        question: &Question,
        names: &mut Vec<String>,
    ) -> Result<(), BadQuestion> {
        for (budget, key) in self.remote_budgets(question) {
            let (limit, name) = (budget.spec.name.to_string(), budget.name(key));
            let had = on_worker(workers, async move |remote| remote.client().delete(&name).await).await;
            let had = had.map_err(|failure| BadQuestion::from(format!("`{limit}` was not reset: {failure}")))?;
            if had && !names.contains(&limit) {
                names.push(limit);
            }
        }
        Ok(())
    }

    /// Keys that are held, for the metrics.
    pub(in super::super) fn collect_budgets(&self, out: &mut Exposition<'_>) -> fmt::Result {
        out.gauge("rate_limit_budget_keys", "Keys that a limit of tokens or money holds in memory", |s| {
            self.budgets().iter().try_for_each(|budget| {
                let labels = [("limit", &*budget.spec.name), ("tier", tier(budget))];
                s.add(&labels, budget.table.keys() as u64)
            })
        })?;
        let help = "Calls counted in the shared account because `max_keys` were held";
        out.counter("rate_limit_budget_overflowed", help, |s| {
            self.budgets().iter().try_for_each(|budget| {
                let labels = [("limit", &*budget.spec.name), ("tier", tier(budget))];
                s.add(&labels, budget.table.overflowed())
            })
        })
    }

    /// Whether a question names a limit of tokens or money.
    pub(in super::super) fn has_budget(&self, question: &Question) -> bool {
        self.budgets_of(question).next().is_some()
    }

    fn budgets_of<'a>(&'a self, question: &'a Question) -> impl Iterator<Item = &'a Arc<Budget>> {
        let fits = |budget: &&Arc<Budget>| question.names(&budget.spec.name, &budget.spec.group);
        self.budgets().iter().filter(fits)
    }

    fn remote_budgets(&self, question: &Question) -> Vec<(Arc<Budget>, Key)> {
        let input = self.budgets_of(question).filter(|budget| budget.spec.store == LimitStore::Redis);
        input
            .filter_map(|budget| Some((budget.clone(), self.budget_key(budget, &question.key).ok().flatten()?)))
            .collect()
    }

    fn budget_key(&self, budget: &Budget, values: &[String]) -> Result<Option<Key>, BadQuestion> {
        let bytes = key_bytes(&budget.spec.name, &budget.spec.key, values)?;
        Ok(bytes.map(|bytes| budget.key(&bytes, self)))
    }
}

/// Windows of two tiers may have one name.
fn tier(budget: &Budget) -> &str {
    match &budget.spec.tiers {
        crate::config::LimitTiers::Only(tier) => tier,
        crate::config::LimitTiers::All | crate::config::LimitTiers::Except(_) => "",
    }
}

async fn look(remote: &Remote, name: &[u8]) -> Result<Account, Failure> {
    let mut get = Cmd::with_capacity(3, 16 + name.len());
    get.arg("HGET").arg(name).arg("s");
    match remote.client().command(name, &get).await? {
        RedisValue::BulkString(bytes) => Ok(Account::parse(&String::from_utf8_lossy(&bytes)).unwrap_or_default()),
        _ => Ok(Account::default()),
    }
}

fn describe(budget: &Budget) -> Value {
    json!({
        "name": &*budget.spec.name,
        "unit": match budget.spec.unit {
            BudgetUnit::Tokens => "tokens",
            BudgetUnit::InputTokens => "input_tokens",
            BudgetUnit::OutputTokens => "output_tokens",
            BudgetUnit::Money => "money",
        },
        "algorithm": match budget.spec.algorithm {
            BudgetAlgorithm::TokenBucket { .. } => "token_bucket",
            BudgetAlgorithm::FixedWindow { .. } => "fixed_window",
        },
        "key": budget.spec.key.iter().map(part_text).collect::<Vec<_>>(),
        "limit": amount(budget, budget.rule.limit()),
        "window_seconds": budget.rule.window_seconds(),
        "store": match budget.spec.store {
            LimitStore::Memory => "memory",
            LimitStore::Redis => "redis",
        },
        "tiers": tiers(&budget.spec.tiers),
        "enforced": budget.spec.enforce,
        "keys": budget.table.keys(),
    })
}

fn state(budget: &Budget, decision: Decision) -> Value {
    json!({
        "in_use": decision.remaining < decision.limit,
        "remaining": amount(budget, decision.remaining),
        "allowed": decision.remaining > 0,
        "retry_seconds": if decision.remaining > 0 { 0.0 } else { decision.reset_ns as f64 / 1e9 },
    })
}

/// Tokens, or money in whole units.
fn amount(budget: &Budget, amount: u64) -> Value {
    if budget.is_money() { json!(amount as f64 / 1e6) } else { json!(amount) }
}
