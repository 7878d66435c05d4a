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
         apply) echo '{\"resources\": [{\"mode\": \"managed\"}]}' >\"$state\"; echo made;;\n\
         output) cat \"$here/hosts\";;\n\
         destroy) [ ! -e \"$here/stuck\" ] || { echo no rights; exit 1; }; [ -e \"$here/liar\" ] || echo '{\"resources\": []}' >\"$state\";;\nesac",
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
    assert!(folder.join("record.json").exists());
    for name in ["..", ".", "nothing", "../machines/shop-1"] {
        assert_eq!(campaign.gauge(&["machines", "destroy", name]).code, 64, "{name}");
    }
}
