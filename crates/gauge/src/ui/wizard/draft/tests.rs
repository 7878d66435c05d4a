use super::{Choices, CreateError, Draft, draft_of};
use crate::plan::{Deploy, Plan};

const API: &str = "openapi: 3.1.0\ninfo: {title: A, version: '1'}\nservers: [{url: 'http://127.0.0.1:9000'}]\npaths:\n  \
    /items/{id}: {get: {operationId: item, parameters: [{name: id, in: path, required: true, schema: {type: integer}}], responses: {}}}\n  \
    /text/{name}: {get: {operationId: text, parameters: [{name: name, in: path, required: true, schema: {type: string}}], responses: {}}}\n";

fn draft(folder: &std::path::Path, name: &str) -> Draft {
    match Draft::create(folder, name, API.as_bytes()) {
        Ok(draft) => draft,
        Err(CreateError::Description(why)) => panic!("{why}"),
        Err(CreateError::System(error)) => panic!("{error}"),
    }
}

fn ssh(host: &str, user: &str) -> Choices {
    Choices {
        gateways: vec!["nginx".to_owned()],
        operations: vec!["item".to_owned()],
        place: "ssh".to_owned(),
        host: host.to_owned(),
        user: user.to_owned(),
        ..Choices::default()
    }
}

#[test]
fn a_draft_becomes_an_evaluation_that_can_be_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let draft = draft(folder.path(), "Shop: {a} \"b\"\nname: other");
    let mut choices = draft.choices();
    assert_eq!(choices.operations, ["item"], "what has no value for its path is not chosen");
    choices.gateways = vec!["weir".to_owned(), "no-such".to_owned()];
    let evaluation = draft.evaluation(&choices).expect("an evaluation");
    draft.write(&choices, &evaluation).expect("written");
    let path = draft.evaluation_path();
    let plan = Plan::read(&folder.path().join(&path)).expect("a plan");
    assert_eq!(plan.name, "Shop: {a} \"b\"\nname: other", "a name is text, whatever it looks like");
    assert_eq!(plan.workloads[0].operations.len(), 1);
    assert_eq!(plan.deploy, Deploy::Local);
    assert!(plan.backends.is_empty() && plan.builds.is_empty());
    assert_eq!(draft_of(&path), Some(draft.key.as_str()));
    assert_eq!(draft_of("other/evaluation.yaml"), None);
}

#[test]
fn a_second_draft_of_a_name_replaces_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_ne!(draft(folder.path(), "a").key, draft(folder.path(), "a").key);
}

#[test]
fn a_host_is_never_an_option_of_ssh() {
    let folder = tempfile::tempdir().expect("a folder");
    let draft = draft(folder.path(), "a");
    for (host, user) in [
        ("-oProxyCommand=id", ""),
        ("", ""),
        ("a b", ""),
        ("a;id", ""),
        ("$(id)", ""),
        ("me@host", ""),
        ("host", "-l"),
        ("host", "a@b"),
        ("host\n", "x"),
    ] {
        assert!(draft.evaluation(&ssh(host, user)).is_err(), "{host} {user}");
    }
    for host in ["bench-1.example.com", "10.0.0.5", "fe80::1"] {
        let evaluation = draft.evaluation(&ssh(host, "me")).expect(host);
        draft.write(&ssh(host, "me"), &evaluation).expect("written");
        let plan = Plan::read(&folder.path().join(draft.evaluation_path())).expect(host);
        assert!(matches!(plan.deploy, Deploy::Ssh(ssh) if ssh.host == host));
    }
}

#[test]
fn a_broken_description_and_one_that_refers_elsewhere_leave_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("secret.yaml"), "type: string").expect("a file");
    let elsewhere = API.replace("{type: string}", "{$ref: '../../secret.yaml'}");
    let outside = API.replace("{type: string}", "{$ref: '/etc/passwd'}");
    for text in ["openapi: 3.1.0\npaths: [", "", "hello", "{}", &elsewhere, &outside] {
        let Err(CreateError::Description(why)) = Draft::create(folder.path(), "x", text.as_bytes()) else {
            panic!("`{text}` is taken")
        };
        assert!(!why.contains("root:"), "{why}");
    }
    let left = std::fs::read_dir(folder.path().join(super::FOLDER)).expect("the folder").count();
    assert_eq!(left, 0);
}
