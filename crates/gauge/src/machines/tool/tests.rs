//! States that are lost, and outputs with warnings.

use super::*;

#[test]
fn a_state_without_content_is_believed_only_where_nothing_was_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let (state, log) = (folder.path().join(STATE), folder.path().join("apply.log"));
    let left = |made: bool| nothing_left(folder.path(), made);
    for content in [None, Some(""), Some("{}"), Some(" \n")] {
        match content {
            None => drop(fs::remove_file(&state)),
            Some(text) => fs::write(&state, text).expect("a file"),
        }
        left(false).expect("nothing was made");
        for said in ["", "a: Creating...\nError: no rights", "Error: see errored.tfstate", "still planning"] {
            fs::write(&log, said).expect("a file");
            let error = left(true).expect_err("it is lost").to_string();
            assert!(error.contains("missing or empty"), "{content:?} {said:?}: {error}");
        }
        for said in ["Error: no credentials", "Interrupt received.\nStopping operation..."] {
            fs::write(&log, said).expect("a file");
            left(true).expect("apply has made nothing");
        }
    }
    fs::write(&state, r#"{"resources": []}"#).expect("a file");
    fs::write(&log, "").expect("a file");
    left(true).expect("it says so");
    fs::write(&state, r#"{"version": 4}"#).expect("a file");
    left(true).expect_err("it does not say what is left");
}

#[test]
fn warnings_around_an_output_are_not_part_of_it() {
    let output = "Warning: {overrides} are in effect\n{ not JSON }\n\n{\n  \"gauge_hosts\": {\"value\": []}\n}\nWarning: again\n";
    let found = json_of(output.as_bytes()).expect("an object");
    assert_eq!(found, serde_json::json!({"gauge_hosts": {"value": []}}));
    assert_eq!(json_of(b"{}\n"), Some(serde_json::json!({})));
    for none in ["", "no output", "  {}", "[{}]"] {
        assert_eq!(json_of(none.as_bytes()), None, "{none:?}");
    }
}
