//! Machines that the real OpenTofu makes for an evaluation: servers of OpenSSH on this machine. Run by `make gauge-machines`, which builds OpenTofu.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testkit::wait;

use super::campaign::{Campaign, GATEWAYS};
use crate::endless;

const LONG: Duration = Duration::from_secs(120);

/// An evaluation whose machines a module makes.
struct Machines {
    campaign: Campaign,
    folder: PathBuf,
    ports: Vec<u16>,
}

impl Machines {
    /// `more` is further variables of the module.
    fn new(evaluation: &str, roles: &[&str], more: &str) -> Self {
        let campaign = Campaign::new(evaluation);
        let folder = campaign.path("machines");
        fs::create_dir(&folder).expect("a folder");
        let key = folder.join("key");
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status();
        assert!(made.expect("ssh-keygen is there").success());
        let module = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/machines");
        let ports: Vec<u16> = roles.iter().map(|_| testkit::ports::Port::free().hand_over()).collect();
        let hosts: Vec<String> = (1..)
            .zip(roles.iter().zip(&ports))
            .map(|(number, (role, port))| format!("host-{number}: {{port: {port}, role: {role}}}"))
            .collect();
        campaign.rewrite(&format!(
            "{evaluation}deploy:\n  terraform: {module}\n  program: tofu\n  vars: {{folder: '{}', hosts: {{{}}}{more}}}\n",
            folder.display(),
            hosts.join(", ")
        ));
        Machines { campaign, folder, ports }
    }

    fn reachable(&self) -> usize {
        self.ports.iter().filter(|port| TcpStream::connect(("127.0.0.1", **port)).is_ok()).count()
    }

    /// The names of the runs that `gauge machines` lists, with what it says of each.
    fn left(&self) -> Vec<(String, String)> {
        let listed = self.campaign.gauge(&["machines"]);
        assert_eq!(listed.code, 0, "{}", listed.text());
        let line = |line: &str| (line.split(' ').next().unwrap_or_default().to_owned(), line.to_owned());
        listed.stdout.lines().filter(|line| line.starts_with("small-")).map(line).collect()
    }

    fn nothing_is_left(&self) {
        assert_eq!(self.reachable(), 0);
        assert_eq!(self.left(), []);
        let listed = self.campaign.gauge(&["machines", "list"]);
        assert_eq!(listed.stdout, "no machines are left\n");
    }

    /// The folder of the one run that is left.
    fn run_folder(&self) -> PathBuf {
        let left = self.left();
        assert_eq!(left.len(), 1, "{left:?}");
        self.campaign.path("state/gauge/machines").join(&left[0].0)
    }
}

impl Drop for Machines {
    /// A test that failed must leave no servers either.
    fn drop(&mut self) {
        for file in ["stuck", "hold"] {
            let _ = fs::remove_file(self.folder.join(file));
        }
        let _ = fs::write(self.folder.join("go"), "");
        self.campaign.gauge(&["machines", "destroy", "--all"]);
    }
}

#[test]
#[ignore = "needs tofu and sshd"]
fn an_evaluation_runs_on_machines_that_are_made_for_it_and_destroyed_after_it() {
    let machines = Machines::new(GATEWAYS, &["gateway"], "");
    let checked = machines.campaign.gauge(&["run", "--check"]);
    assert_eq!(checked.code, 0, "{}", checked.text());
    assert_eq!(machines.reachable(), 0, "a check makes nothing");
    let finished = machines.campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    for said in ["tofu: Plan: 1 to add", "Creation complete", "destroying the machines of small-", "Destroy complete!"]
    {
        assert!(finished.stderr.contains(said), "{said}: {}", finished.text());
    }
    assert_eq!(machines.campaign.trials().len(), 6);
    assert!(machines.campaign.trials().iter().all(|trial| trial["state"] == "done"));
    machines.nothing_is_left();
    // A campaign that is done is reported again without machines.
    let again = machines.campaign.run(&[]);
    assert_eq!(again.code, 0, "{}", again.text());
    assert!(!again.stderr.contains("tofu"), "{}", again.text());
}

#[test]
#[ignore = "needs tofu and sshd"]
fn generators_a_gateway_and_an_upstream_have_machines_of_their_own() {
    let machines = Machines::new(GATEWAYS, &["generator", "generator", "gateway", "upstream"], "");
    let finished = machines.campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let trials = machines.campaign.trials();
    assert_eq!(trials.len(), 6);
    for trial in &trials {
        let parts = trial["observed"]["generators"].as_array().expect("a list");
        assert_eq!(parts.len(), 2, "{trial}");
        let sent: u64 = parts.iter().filter_map(|part| part["requests"]["sent"].as_u64()).sum();
        assert_eq!(Some(sent), trial["report"]["total"]["requests"]["sent"].as_u64(), "{trial}");
        assert!(parts.iter().all(|part| part["requests"]["sent"].as_u64() > Some(0)), "{trial}");
    }
    machines.nothing_is_left();
}

#[test]
#[ignore = "needs tofu and sshd"]
fn what_a_killed_run_leaves_is_listed_and_destroyed() {
    let machines = Machines::new(&endless(), &["gateway"], "");
    let process = machines.campaign.start();
    machines.campaign.wait_until_loaded();
    let busy = machines.left();
    assert!(busy[0].1.contains("running (in use)"), "{busy:?}");
    let refused = machines.campaign.gauge(&["machines", "destroy", &busy[0].0]);
    assert_eq!(refused.code, 69, "{}", refused.text());
    assert_eq!(machines.reachable(), 1, "a run that goes on keeps its machines");
    process.kill();
    let left = machines.left();
    assert!(left[0].1.contains("running") && left[0].1.contains("gateway 127.0.0.1:"), "{left:?}");
    let folder = machines.run_folder();
    let mode = |file: &str| std::os::unix::fs::MetadataExt::mode(&fs::metadata(folder.join(file)).expect(file)) & 0o777;
    assert_eq!((mode("key-0"), mode("gauge.tfvars.json"), mode("")), (0o600, 0o600, 0o700));
    let destroyed = machines.campaign.gauge(&["machines", "destroy", &left[0].0]);
    assert_eq!(destroyed.code, 0, "{}", destroyed.text());
    machines.nothing_is_left();
    let unknown = machines.campaign.gauge(&["machines", "destroy", &left[0].0]);
    assert_eq!(unknown.code, 64, "{}", unknown.text());
}

#[test]
#[ignore = "needs tofu and sshd"]
fn a_run_that_is_killed_while_machines_are_made_loses_none_of_them() {
    let machines = Machines::new(GATEWAYS, &["gateway"], ", wait: true");
    let process = machines.campaign.start();
    wait::until(LONG, "the first machine", || machines.reachable() == 1);
    process.kill();
    let left = machines.left();
    assert!(left[0].1.contains("creating"), "{left:?}");
    // OpenTofu goes on, and has the state: it is waited for.
    fs::write(machines.folder.join("go"), "").expect("a file");
    let destroyed = machines.campaign.gauge(&["machines", "destroy", "--all"]);
    assert_eq!(destroyed.code, 0, "{}", destroyed.text());
    machines.nothing_is_left();
}

#[test]
#[ignore = "needs tofu and sshd"]
fn after_a_failure_in_apply_nothing_is_left() {
    let machines = Machines::new(GATEWAYS, &["gateway"], ", fail: true");
    let finished = machines.campaign.run(&[]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    assert!(finished.stderr.contains("`tofu apply` failed"), "{}", finished.text());
    assert!(finished.stderr.contains("the quota is exhausted"), "{}", finished.text());
    assert!(machines.campaign.trials().is_empty());
    machines.nothing_is_left();
}

#[test]
#[ignore = "needs tofu and sshd"]
fn a_failure_in_destroy_is_said_with_the_command_that_tries_again() {
    let machines = Machines::new(GATEWAYS, &["gateway"], "");
    fs::write(machines.folder.join("stuck"), "").expect("a file");
    let finished = machines.campaign.run(&[]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    assert!(machines.campaign.out.join("report.html").is_file(), "what was measured is not lost");
    let left = machines.left();
    assert!(left[0].1.contains("destroy failed"), "{left:?}");
    let command = format!("gauge machines destroy {}", left[0].0);
    assert!(finished.stderr.contains(&command), "{}", finished.text());
    assert!(finished.stderr.contains("the machine does not stop"), "{}", finished.text());
    let again = machines.campaign.gauge(&["machines", "destroy", "--all"]);
    assert_eq!(again.code, 69, "{}", again.text());
    fs::remove_file(machines.folder.join("stuck")).expect("it was there");
    let again = machines.campaign.gauge(&["machines", "destroy", &left[0].0]);
    assert_eq!(again.code, 0, "{}", again.text());
    machines.nothing_is_left();
}

#[test]
#[ignore = "needs tofu and sshd"]
fn ctrl_c_destroys_the_machines_and_a_second_one_says_what_is_left() {
    let machines = Machines::new(&endless(), &["gateway"], "");
    let process = machines.campaign.start();
    machines.campaign.wait_until_loaded();
    let (code, said) = process.interrupt();
    assert_eq!(code, 130, "{said}");
    machines.nothing_is_left();

    fs::write(machines.folder.join("hold"), "").expect("a file");
    let process = machines.campaign.start_with(&["--fresh"]);
    machines.campaign.wait_until_loaded();
    let (code, said) = process.interrupt_twice_after("terraform_data.host[\"host-1\"]: Destroying");
    assert_eq!(code, 130, "{said}");
    let left = machines.left();
    assert!(said.contains(&format!("gauge machines destroy {}", left[0].0)), "{said}");
    fs::remove_file(machines.folder.join("hold")).expect("it was there");
    let destroyed = machines.campaign.gauge(&["machines", "destroy", "--all"]);
    assert_eq!(destroyed.code, 0, "{}", destroyed.text());
    machines.nothing_is_left();
}

#[test]
#[ignore = "needs tofu and sshd"]
fn machines_are_kept_where_the_evaluation_says_so() {
    let machines = Machines::new(GATEWAYS, &["gateway"], "");
    let evaluation = fs::read_to_string(machines.campaign.path("e.yaml")).expect("the evaluation");
    machines.campaign.rewrite(&format!("{evaluation}  keep: true\n"));
    let finished = machines.campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let left = machines.left();
    assert!(left[0].1.contains("kept"), "{left:?}");
    assert!(finished.stderr.contains(&format!("gauge machines destroy {}", left[0].0)), "{}", finished.text());
    assert_eq!(machines.reachable(), 1);
    assert_eq!(machines.campaign.gauge(&["machines", "destroy", "--all"]).code, 0);
    machines.nothing_is_left();
}

#[test]
#[ignore = "needs tofu and sshd"]
fn a_module_without_hosts_is_refused_by_a_check() {
    let campaign = Campaign::new(&format!("{GATEWAYS}deploy: {{terraform: module, program: tofu}}\n"));
    fs::create_dir(campaign.path("module")).expect("a folder");
    campaign.file("module/main.tf", "output \"hosts\" {\n  value = []\n}\n");
    let checked = campaign.gauge(&["run", "--check"]);
    assert_eq!(checked.code, 64, "{}", checked.text());
    assert!(checked.stderr.contains("no output `gauge_hosts`"), "{}", checked.text());
    campaign.file("module/main.tf", "output \"gauge_hosts\" {\n  value = var.nothing\n}\n");
    let checked = campaign.gauge(&["run", "--check"]);
    assert_eq!(checked.code, 69, "{}", checked.text());
    assert!(checked.stderr.contains("undeclared input variable"), "{}", checked.text());
    // A module with a state elsewhere would share it between runs.
    campaign
        .file("module/main.tf", "terraform {\n  backend \"local\" {}\n}\noutput \"gauge_hosts\" {\n  value = []\n}\n");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 64, "{}", finished.text());
    assert!(finished.stderr.contains("`backend` or a `cloud` block"), "{}", finished.text());
    assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
}
