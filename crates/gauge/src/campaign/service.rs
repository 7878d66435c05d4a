//! What belongs to services alone: what is done before each of their trials, and whether they respond as the workload expects.

use std::time::Duration;

use super::conformance;
use super::generate::Failure;
use super::program::Placed;
use super::start::Running;
use super::{Campaign, CampaignError, addressed};
use crate::load::{PrepareError, Prepared};
use crate::plan::{Step, Workload};
use crate::results::{Conformance, Difference};

/// Time for a command before a trial.
const RUN: Duration = Duration::from_secs(120);

impl Campaign<'_> {
    /// Does what the evaluation wants done before each trial of a service. A command that fails says nothing of the service; a response that is not
    /// expected, or a command that does not print what it must, does.
    pub(super) fn before_each(&mut self, workload: &Workload, running: &Running) -> Result<(), Failure> {
        let plan = self.plan;
        let Some(service) = &running.service else { return Ok(()) };
        for step in &plan.before_each {
            match step {
                Step::Run { command, cwd, prints } => {
                    let said = self.run_step(service, command, cwd)?;
                    if let Some(wanted) = prints.as_ref().filter(|wanted| *wanted != said.trim()) {
                        let (command, said) = (command.join(" "), conformance::shown(said.trim().as_bytes()));
                        return Err(Failure::Trial(format!(
                            "before the trial `{command}` printed `{said}` instead of `{wanted}`"
                        )));
                    }
                }
                Step::Send(id) => self.send_step(workload, running, id)?,
            }
        }
        Ok(())
    }

    fn run_step(&mut self, service: &Placed, command: &[String], cwd: &std::path::Path) -> Result<String, Failure> {
        let there = self.there.as_mut();
        let spec = service.spec("before-", command, cwd, &self.backends.names, there).map_err(CampaignError::from)?;
        let output = there.run(&spec, RUN).map_err(CampaignError::from)?;
        if output.success {
            return Ok(output.text);
        }
        Err(Failure::Condition(format!("before the trial `{}` failed:\n{}", spec.argv.join(" "), output.text)))
    }

    fn send_step(&self, workload: &Workload, running: &Running, id: &str) -> Result<(), Failure> {
        let mut request = addressed::for_conformance(workload, &running.addressed, &self.generate.made);
        let mut described = workload.operations.iter().map(|planned| planned.described == id);
        request.operations.retain(|_| described.next() == Some(true));
        request.operations.truncate(1);
        let prepared = Prepared::new(&request).map_err(|error| match of_service(error) {
            Ok(why) => Failure::Trial(why),
            Err(error) => Failure::Campaign(error),
        })?;
        let failed = prepared.once().into_iter().find(|exchange| !exchange.expected);
        failed.map_or(Ok(()), |exchange| {
            let found = conformance::outcome(&exchange);
            Err(Failure::Trial(format!("before the trial, to `{}`, it {found}", exchange.operation)))
        })
    }

    /// Sends each operation of each workload once: its status is one that the workload expects.
    pub(super) fn check_service(&mut self, running: &Running) -> Result<Conformance, CampaignError> {
        let plan = self.plan;
        let mut found = Conformance { operations: Vec::new(), differences: Vec::new() };
        let mut differs = |operation: String, what: &str, found_instead: String| {
            let (what, expected) = (what.to_owned(), "as the workload expects".to_owned());
            found.differences.push(Difference { operation, what, expected, found: found_instead });
        };
        let mut operations = Vec::new();
        for workload in &plan.workloads {
            match self.before_each(workload, running) {
                Ok(()) => {}
                Err(Failure::Trial(why)) => differs(workload.name.clone(), "before each trial", why),
                Err(Failure::Condition(why)) => return Err(CampaignError::Backend(why)),
                Err(Failure::Stopped) => return Err(CampaignError::Stopped),
                Err(Failure::Campaign(error)) => return Err(error),
            }
            let request = addressed::for_conformance(workload, &running.addressed, &self.generate.made);
            let prepared = match Prepared::new(&request) {
                Ok(prepared) => prepared,
                Err(error) => {
                    differs(workload.name.clone(), "description", of_service(error)?);
                    continue;
                }
            };
            for exchange in prepared.once() {
                if !exchange.expected {
                    differs(exchange.operation.clone(), "status", conformance::outcome(&exchange));
                }
                if !operations.contains(&exchange.operation) {
                    operations.push(exchange.operation);
                }
            }
        }
        found.operations = operations;
        Ok(found)
    }
}

/// Why a service cannot be called that does not describe the methods, or has others: that is its own fault, and the campaign goes on.
fn of_service(error: PrepareError) -> Result<String, CampaignError> {
    match error {
        PrepareError::Reflection { .. } | PrepareError::Operation { .. } => Ok(error.to_string()),
        error => Err(CampaignError::Backend(error.to_string())),
    }
}
