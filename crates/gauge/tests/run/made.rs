//! What `gauge run` does around the program that makes machines; that is a script here. The real one: machines.rs.

use std::fs;

use super::campaign::{Campaign, GATEWAYS};

/// A script that stands for OpenTofu: `apply` writes a state with a resource, `destroy` one without, `output` prints the file `hosts`.
fn campaign(hosts: &str) -> Campaign {
    let campaign = Campaign::new(&format!("{GATEWAYS}deploy: {{terraform: module}}\n"));
    for folder in ["module", "bin"] {
        fs::create_dir(campaign.path(folder)).expect("a folder");
    }
    let output = format!("{{\"gauge_hosts\": {{\"value\": {hosts}}}}}");
    campaign.file("hosts", &output);
    campaign.script(
        "bin/tofu",
        "here=$(dirname \"$0\")/..\nstep=$2\nfor one; do case $one in -state=*) state=${one#-state=};; esac; done\n\
         echo \"$step $TF_DATA_DIR\" >>\"$here/steps\"\ncase $step in\n\
         init) mkdir -p \"$TF_DATA_DIR\";;\n\
         apply) if [ -e \"$here/full\" ]; then cp \"$here/full\" \"$here/module/errored.tfstate\"; echo 'Error: see errored.tfstate'; exit 1; fi; \
         [ ! -e \"$here/plan\" ] || { echo 'Error: no credentials'; exit 1; }; echo '{\"resources\": [{\"mode\": \"managed\"}]}' >\"$state\"; echo made;;\n\
         output) [ ! -e \"$here/broken\" ] || { rm \"${state%/*}/record.json\"; mkdir \"${state%/*}/record.json\"; }; echo 'Warning: {overrides}'; cat \"$here/hosts\";;\n\
         destroy) cp \"$state\" \"$here/destroyed\"; [ ! -e \"$here/stuck\" ] || { echo no rights; exit 1; }; [ -e \"$here/liar\" ] || echo '{\"resources\": []}' >\"$state\";;\nesac",
    );
    campaign
}

fn path(campaign: &Campaign) -> String {
    format!("{}:/usr/bin:/bin", campaign.path("bin").display())
}

fn steps(campaign: &Campaign) -> Vec<String> {
    let text = fs::read_to_string(campaign.path("steps")).unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_program_that_is_missing_is_named() {
    let campaign = campaign("[]");
    let finished = campaign.run_with(&[], &[("PATH", "/nowhere")]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    assert!(finished.stderr.contains("neither `tofu` nor `terraform` is on PATH"), "{}", finished.text());
    let checked = campaign.run_with(&["--check"], &[("PATH", "/nowhere")]);
    assert_eq!(checked.code, 69, "{}", checked.text());
    campaign.rewrite(&format!("{GATEWAYS}deploy: {{terraform: module, program: terraform}}\n"));
    let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
    assert!(finished.stderr.contains("`terraform` is not on PATH"), "{}", finished.text());
    assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
}

#[test]
fn what_an_output_says_is_never_an_option_of_ssh_and_its_machines_are_destroyed() {
    for (host, why) in [
        (
            r#"{"role": "gateway", "address": "-oProxyCommand=touch x"}"#,
            "the address `-oProxyCommand=touch x` is neither",
        ),
        (r#"{"role": "gateway", "address": "a", "user": "-l"}"#, "the user `-l` is not a name"),
        (r#"{"role": "gateway", "address": "a", "options": ["ProxyCommand=x"]}"#, "which only an evaluation may set"),
        (r#"{"role": "gate", "address": "a"}"#, "is not a list of machines"),
        (r#"{"role": "generator", "address": "a"}"#, "no host has the role `gateway`"),
    ] {
        let campaign = campaign(&format!("[{host}]"));
        let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
        assert_eq!(finished.code, 64, "{}", finished.text());
        assert!(finished.stderr.contains(why), "{}", finished.text());
        assert_eq!(steps(&campaign), ["init", "apply", "output", "destroy"]);
        assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
    }
}

#[test]
fn a_destroy_is_believed_only_when_the_state_says_the_same() {
    for (file, why) in [("liar", "still has 1 resources"), ("stuck", "no rights")] {
        let campaign = campaign("[]");
        campaign.file(file, "");
        let env = path(&campaign);
        let finished = campaign.run_with(&[], &[("PATH", &env)]);
        assert_eq!(finished.code, 69, "{}", finished.text());
        assert!(finished.stderr.contains(why), "{}", finished.text());
        assert!(finished.stderr.contains("gauge machines destroy small-"), "{}", finished.text());
        let listed = campaign.gauge(&["machines"]).stdout;
        assert!(listed.contains("destroy failed"), "{listed}");
        let next = campaign.run_with(&["--check"], &[("PATH", &env)]);
        assert!(next.stderr.contains("an earlier run has left machines"), "{}", next.text());
        fs::remove_file(campaign.path(file)).expect("it was there");
        // The program that made them is used, also where it is not on PATH.
        let destroyed = campaign.gauge(&["machines", "destroy", "--all"]);
        assert_eq!(destroyed.code, 0, "{}", destroyed.text());
        assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
    }
}

const ERRORED: &str = r#"{"version": 4, "lineage": "a", "serial": 1, "resources": [{"mode": "managed"}]}"#;

#[test]
fn a_state_that_could_not_be_saved_is_destroyed_and_not_overwritten() {
    let campaign = campaign("[]");
    campaign.file("full", ERRORED);
    let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    assert_eq!(steps(&campaign), ["init", "apply", "destroy"]);
    assert_eq!(fs::read_to_string(campaign.path("destroyed")).expect("a state was destroyed"), ERRORED);
    assert!(!campaign.path("module/errored.tfstate").exists());
    assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
}

#[test]
fn what_another_run_could_not_save_is_left_as_it_is() {
    let campaign = campaign("[]");
    let errored = campaign.path("module/errored.tfstate");
    campaign.file("module/errored.tfstate", ERRORED);
    let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
    assert_eq!(finished.code, 64, "{}", finished.text());
    assert!(finished.stderr.contains("the only record of them"), "{}", finished.text());
    assert!(steps(&campaign).is_empty() && errored.exists());
    assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
    // One that is cut off is no state.
    fs::remove_file(&errored).expect("it was there");
    campaign.file("full", "{\"version\": 4, \"resour");
    let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
    assert!(finished.code == 69 && finished.stderr.contains("cannot be read"), "{}", finished.text());
    assert!(!steps(&campaign).contains(&"destroy".to_owned()) && errored.exists());
    assert!(campaign.gauge(&["machines"]).stdout.contains("destroy failed"));
}

#[test]
fn a_lost_state_is_never_taken_for_nothing_left() {
    let campaign = campaign(r#"[{"role": "gateway", "address": "127.0.0.1", "user": "-l"}]"#);
    campaign.file("stuck", "");
    let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
    assert_eq!(finished.code, 69, "{}", finished.text());
    fs::remove_file(campaign.path("stuck")).expect("it was there");
    let folder = fs::read_dir(campaign.path("state/gauge/machines")).expect("a folder").flatten().next();
    let folder = folder.expect("a run").path();
    let before = steps(&campaign);
    for content in [None, Some(""), Some("{}")] {
        let state = folder.join("terraform.tfstate");
        match content {
            None => fs::remove_file(&state).expect("it was there"),
            Some(text) => fs::write(&state, text).expect("a file"),
        }
        let destroyed = campaign.gauge(&["machines", "destroy", "--all"]);
        assert_eq!(destroyed.code, 69, "{content:?}: {}", destroyed.text());
        assert!(destroyed.stderr.contains("missing or empty"), "{}", destroyed.text());
        assert!(destroyed.stderr.contains("known machines: gateway -l@127.0.0.1"), "{}", destroyed.text());
        assert!(folder.join("record.json").exists());
    }
    assert_eq!(steps(&campaign), before, "nothing was run on it");
}

#[test]
fn an_apply_that_has_made_nothing_leaves_nothing() {
    let campaign = campaign("[]");
    campaign.file("plan", "");
    let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
    assert!(finished.code == 69 && finished.stderr.contains("no credentials"), "{}", finished.text());
    assert_eq!(steps(&campaign), ["init", "apply"]);
    assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
}

#[test]
fn machines_are_destroyed_also_where_their_record_cannot_be_written() {
    let campaign = campaign("[]");
    campaign.file("broken", "");
    let finished = campaign.run_with(&[], &[("PATH", &path(&campaign))]);
    assert!(finished.stderr.contains("record.json"), "{}", finished.text());
    assert_eq!(steps(&campaign), ["init", "apply", "output", "destroy"]);
    assert_eq!(campaign.gauge(&["machines"]).stdout, "no machines are left\n");
}

#[test]
fn a_record_that_cannot_be_read_is_listed_and_nothing_of_it_is_removed() {
    let campaign = campaign("[]");
    let folder = campaign.path("state/gauge/machines/shop-1");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("record.json"), "{").expect("a file");
    let listed = campaign.gauge(&["machines"]);
    assert!(listed.code == 0 && listed.stdout.contains("is not what gauge writes"), "{}", listed.text());
    let destroyed = campaign.gauge(&["machines", "destroy", "shop-1"]);
    assert_eq!(destroyed.code, 69, "{}", destroyed.text());
    let command = format!("tofu destroy -state={}", folder.join("terraform.tfstate").display());
    assert!(destroyed.stderr.contains(&command), "{}", destroyed.text());
    assert!(folder.join("record.json").exists());
    for name in ["..", ".", "nothing", "../machines/shop-1"] {
        assert_eq!(campaign.gauge(&["machines", "destroy", name]).code, 64, "{name}");
    }
}
