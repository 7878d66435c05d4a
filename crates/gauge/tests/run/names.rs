//! Whatever systems, workloads and backends are called, none has the files of another.

use super::campaign::{Campaign, GATEWAYS};

/// One round without a control.
fn one_round(text: &str) -> String {
    format!("{}control: false\n", text.replace("repeats: 2", "repeats: 1"))
}

#[test]
fn runs_whose_names_read_alike_have_a_file_each() {
    let workload = "  - {name: read,";
    let second = "  - {name: again read, operations: [{id: echo}], load: {closed: {users: 1, duration: 300ms}}}\n";
    let text = GATEWAYS.replace(workload, &format!("{second}{workload}"));
    let campaign = Campaign::new(
        &one_round(&text).replace("[nginx]", "[nginx, {name: nginx again, gateway: nginx}]\nbaseline: false"),
    );
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let mut found: Vec<String> = campaign
        .trials()
        .iter()
        .map(|run| format!("{} under {}", run["system"], run["workload"]).replace('"', ""))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        ["nginx again under again read", "nginx again under read", "nginx under again read", "nginx under read"]
    );
}

/// A backend that runs on and has something to lose.
fn with_store() -> String {
    let demo = "command: ['{gauge}', demo, --listen, '{address}:{http}']";
    assert!(GATEWAYS.contains(demo));
    let own = "name: api\n  command: [sh, -c, 'touch \"$STORE/items\"; exec \"$0\" demo --listen \"$1\"', '{gauge}', '{address}:{http}']\n  \
        env: {STORE: '{data}'}\n  restart: never\n  reset: [sh, -c, 'test -e \"$STORE/items\"']";
    one_round(&GATEWAYS.replace(demo, own))
}

#[test]
fn a_backend_is_reset_with_the_variables_that_it_was_started_with() {
    let campaign = Campaign::new(&with_store());
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert_eq!(campaign.trials().len(), 2);
}

#[test]
fn a_system_that_is_called_as_a_backend_s_folder_does_not_empty_it() {
    let name = "[nginx, {name: backend api, gateway: nginx}]";
    let campaign = Campaign::new(&with_store().replace("[nginx]", name));
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert_eq!(campaign.trials().len(), 3);
}
