//! One system in one round: it is started, runs every workload, and is stopped.

use std::collections::BTreeMap;

use super::start::{self, Running, Started};
use super::{Campaign, CampaignError, aborted, search, unix_ms};
use crate::plan::{PlannedLoad, System, Workload, slug};
use crate::results::{Trial, TrialState};

/// The trials of a system in a round that are repeated: their workloads, by place in the plan, and the conditions that were not met each time. Empty: all
/// of them are run for the first time.
pub(super) type Repeated = BTreeMap<usize, Vec<String>>;

impl Campaign<'_> {
    /// Runs the trials of a system in a round. Failures of the system are results; an error that is returned ends the campaign. With `repeated`, only those
    /// trials are run again, and the results of the others stay, failures too.
    pub(super) fn system_round(
        &mut self,
        round: u32,
        place: u32,
        system: &System,
        repeated: &Repeated,
    ) -> Result<(), CampaignError> {
        let plan = self.plan;
        let mut runs: Vec<Trial> =
            plan.workloads.iter().map(|workload| planned(round, place, system, workload)).collect();
        for (index, why) in repeated {
            runs[*index].repeated.clone_from(why);
        }
        let whole = repeated.is_empty();
        let made = |name: &str| {
            whole || plan.workloads.iter().position(|own| own.name == name).is_none_or(|at| repeated.contains_key(&at))
        };
        // What an earlier, unfinished turn left. Its files are written over, but for those that an earlier version named otherwise.
        let of_system = |run: &Trial| (run.round, &run.system) == (round, &system.name) && made(&run.workload);
        for left in self.results.trials.iter().filter(|run| of_system(run)) {
            if !runs.iter().any(|run| run.id == left.id) {
                self.store.forget(&left.id)?;
            }
        }
        self.results.trials.retain(|run| !of_system(run));
        self.results
            .searches
            .retain(|search| (search.round, &search.system) != (round, &system.name) || !made(&search.workload));
        if let Some(first) = runs.first_mut() {
            first.state = TrialState::Starting;
            self.note(first)?;
        }
        self.backends.fresh(self.there.upstream())?;
        let state = match start::start(self, system)? {
            Started::Runs(_, running) => {
                let outcome = self.workloads(round, system, &running, &mut runs, repeated);
                start::stop(self.there.as_mut(), &running);
                return outcome;
            }
            Started::NotHere(_, why)
            | Started::NotSupported(why)
            | Started::Failed(_, why)
            | Started::Ended(_, why) => TrialState::Failed(why),
            Started::NoPort(why) => TrialState::Void(why),
        };
        for (run, workload) in runs.iter_mut().zip(&plan.workloads).filter(|(run, _)| made(&run.workload)) {
            if matches!(&workload.load, PlannedLoad::Search(search) if round <= search.rounds) {
                let mut found = search::nothing(round, system, workload);
                match &state {
                    TrialState::Void(why) => found.invalid = Some(search::not_measured(why)),
                    TrialState::Failed(why) => found.failed = Some(why.clone()),
                    _ => {}
                }
                self.results.searches.push(found);
            }
            run.state = state.clone();
            self.finish(run, workload)?;
        }
        Ok(())
    }

    fn workloads(
        &mut self,
        round: u32,
        system: &System,
        running: &Running,
        runs: &mut [Trial],
        repeated: &Repeated,
    ) -> Result<(), CampaignError> {
        let plan = self.plan;
        let mut places: Vec<usize> = (0..plan.workloads.len()).collect();
        if !plan.fixed_order {
            places = super::order(round, &places);
        }
        let made = |index: &usize| repeated.is_empty() || repeated.contains_key(index);
        // Where workloads build on each other, those before a repeated one come first again.
        let last = repeated.keys().last().copied();
        places.retain(|index| made(index) || (plan.fixed_order && Some(*index) < last));
        for index in places {
            let counts = made(&index);
            let (workload, run) = (&plan.workloads[index], &mut runs[index]);
            match &workload.load {
                PlannedLoad::Search(search) if round <= search.rounds && counts => {
                    run.state = TrialState::Measuring;
                    self.note(run)?;
                    let found = search::search(self, round, system, workload, search, running)?;
                    self.results.searches.push(found);
                    self.store.campaign(&self.results)?;
                }
                PlannedLoad::Search(_) => {}
                PlannedLoad::Fixed(load) => {
                    run.state = TrialState::Warming;
                    run.started_unix_ms = Some(unix_ms());
                    self.note(run)?;
                    match self.measure(&run.id, round, workload, load, run.treatment.as_ref(), running) {
                        Ok((report, observed)) => {
                            run.treated = report.total.marked_share();
                            run.report = Some(report);
                            run.observed = Some(observed);
                            run.state = TrialState::Done;
                        }
                        Err(super::generate::Failure::Stopped) => {
                            aborted(run, "stopped by Ctrl-C or a signal");
                            self.finish(run, workload)?;
                            return Err(CampaignError::Stopped);
                        }
                        Err(super::generate::Failure::Trial(why)) => run.state = TrialState::Failed(why),
                        Err(super::generate::Failure::Condition(why)) => run.state = TrialState::Void(why),
                        Err(super::generate::Failure::Campaign(error)) => return Err(error),
                    }
                    match (&run.state, counts) {
                        (_, true) => self.finish(run, workload)?,
                        // A gateway that fails in what was only to lead up to another trial has failed in it.
                        (TrialState::Failed(_), false) => {
                            let same = |other: &Trial| other.id != run.id;
                            self.results.trials.retain(same);
                            self.finish(run, workload)?;
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps a run that came to an end.
    fn finish(&mut self, run: &Trial, workload: &Workload) -> Result<(), CampaignError> {
        if matches!(workload.load, PlannedLoad::Search(_)) {
            return Ok(());
        }
        self.store.run(run)?;
        self.note(run)?;
        self.results.trials.push(run.clone());
        Ok(())
    }
}

/// Names a run and its file. The dot keeps names apart that a dash would not: `a` under `b c` and `a b` under `c`.
pub(super) fn id(round: u32, system: &System, workload: &Workload) -> String {
    format!("r{round:02}-{}.{}", slug(&system.name), slug(&workload.name))
}

fn planned(round: u32, place: u32, system: &System, workload: &Workload) -> Trial {
    Trial {
        id: id(round, system, workload),
        round,
        place,
        system: system.name.clone(),
        workload: workload.name.clone(),
        state: TrialState::Planned,
        started_unix_ms: None,
        report: None,
        observed: None,
        treatment: system.treatment.clone().or_else(|| workload.treatment.clone()),
        treated: None,
        repeated: Vec::new(),
        payload: workload.payload(),
        mode: workload.mode.map(str::to_owned),
    }
}
