//! The check of a profile: a system once more, in front of an upstream that says what reached it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::start::InFront;
use super::{Campaign, CampaignError, addressed, probe, start};
use crate::deploy::{Handle, Spec};
use crate::gateway::{Signal, Stop};
use crate::load::workload::Operation;
use crate::observe::Reading;
use crate::plan::System;
use crate::profile::{Probe, check};
use crate::results::Difference;

/// Time for the upstream to start.
const START: Duration = Duration::from_secs(30);
const STOP: Stop = Stop { signal: Signal::Term, grace: Duration::from_secs(2) };

/// `gauge demo --probe`, there.
#[derive(Debug)]
pub(super) struct ProbeUpstream {
    spec: Spec,
    handle: Handle,
    pub(super) port: u16,
    /// Where the generator reaches it.
    pub(super) address: SocketAddr,
}

impl ProbeUpstream {
    /// Starts it; the inner error is why it does not serve.
    pub(super) fn start(campaign: &mut Campaign<'_>) -> Result<Result<Self, String>, CampaignError> {
        let there = campaign.there.as_mut();
        let Some(&port) = there.free_ports(1)?.first() else { return Ok(Err("there is no free port".to_owned())) };
        let gauge = there.upload(&campaign.options.gauge)?;
        let listen = SocketAddr::new(there.listen(), port).to_string();
        let spec = Spec {
            name: "probe".to_owned(),
            argv: [gauge.to_string_lossy().as_ref(), "demo", "--probe", "--listen", &listen].map(str::to_owned).into(),
            cwd: there.directory().to_owned(),
            cpus: campaign.pin.upstream.clone(),
            ..Spec::default()
        };
        let (handle, address) = (there.start(&spec)?, there.reach(port)?);
        let upstream = ProbeUpstream { spec, handle, port, address };
        Ok(upstream.wait(campaign).map(|()| upstream))
    }

    fn wait(&self, campaign: &mut Campaign<'_>) -> Result<(), String> {
        let deadline = Instant::now() + START;
        while probe::responses(self.address, "/").is_none() {
            if Instant::now() > deadline || !campaign.there.is_running(self.handle) {
                let said = campaign.there.log_tail(self.handle);
                self.stop(campaign);
                return Err(format!("the upstream of the check does not start: {said}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub(super) fn signal(&self, campaign: &mut Campaign<'_>, signal: Signal) -> Result<(), CampaignError> {
        Ok(campaign.there.signal(self.handle, signal)?)
    }

    pub(super) fn reading(&self, campaign: &mut Campaign<'_>) -> Option<Reading> {
        campaign.there.reading(self.handle)
    }

    /// Starts it again where it was, and waits until it serves.
    pub(super) fn restart(&mut self, campaign: &mut Campaign<'_>) -> Result<Result<(), String>, CampaignError> {
        self.stop(campaign);
        self.handle = campaign.there.start(&self.spec)?;
        Ok(self.wait(campaign))
    }

    pub(super) fn stop(&self, campaign: &mut Campaign<'_>) {
        campaign.there.stop(self.handle, STOP);
    }
}

impl Campaign<'_> {
    /// What a system does otherwise than the profile says.
    pub(super) fn check_profile(&mut self, system: &System) -> Result<Vec<Difference>, CampaignError> {
        if !self.plan.profile.is_checked() {
            return Ok(Vec::new());
        }
        let not_checked =
            |why: String| CampaignError::Backend(format!("{}: its profile could not be checked: {why}", system.name));
        let upstream = ProbeUpstream::start(self)?.map_err(not_checked)?;
        let found = self.check_before(system, &upstream);
        upstream.stop(self);
        found?.map_err(not_checked)
    }

    fn check_before(
        &mut self,
        system: &System,
        upstream: &ProbeUpstream,
    ) -> Result<Result<Vec<Difference>, String>, CampaignError> {
        let before = InFront { upstream: Some(upstream.port), routes: 0 };
        let running = match start::start_before(self, system, before)? {
            start::Started::Runs(_, running) => running,
            start::Started::NotHere(_, why)
            | start::Started::NotSupported(why)
            | start::Started::Failed(_, why)
            | start::Started::Ended(_, why)
            | start::Started::NoPort(why) => return Ok(Err(why)),
        };
        let mut operations = self.operations(&running.addressed);
        // One that changes nothing, if there is one.
        let safe = operations.iter().position(|operation| operation.method == "GET").unwrap_or(0);
        let upload = operations.iter().find(|operation| operation.body.is_some()).cloned();
        let found = match &running.addressed {
            addressed::Addressed::Gateway(address, clients) if !operations.is_empty() => {
                let operation = operations.swap_remove(safe);
                let (gateway, upstream) = (*address, upstream.address);
                let clients = clients.as_ref().clone();
                let probe = Probe { gateway, upstream, clients, operation, upload, differences: Vec::new() };
                check(&self.plan.profile, probe)
            }
            _ => Ok(Vec::new()),
        };
        start::stop(self.there.as_mut(), &running);
        Ok(found)
    }

    /// The operations of all workloads, each with one value for each param.
    pub(super) fn operations(&self, addressed: &addressed::Addressed) -> Vec<Operation> {
        let of = |workload| addressed::for_conformance(workload, addressed, &self.generate.made).operations;
        self.plan.workloads.iter().flat_map(of).collect()
    }
}
