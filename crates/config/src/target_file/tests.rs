use std::fs;

use super::*;

const RULES: Rules<'_> = Rules { tls: None, is_inference: false, is_managed: false };

fn read_text(text: &str) -> Result<Vec<Target>, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("targets.yaml");
    fs::write(&path, text).unwrap();
    TargetFile::read(&path).targets(&RULES).map_err(|problems| {
        let folder = format!("{}/", directory.path().display());
        problems.to_string().replace(&folder, "")
    })
}

#[test]
fn a_list_is_read_as_in_a_configuration() {
    let yaml = "# by a program\n- http://10.0.0.1:8001\n- {url: \"http://10.0.0.2:8001/base\", weight: 3}\n- unix:/run/a.sock\n- srv+http://_a._tcp.test\n";
    let targets = read_text(yaml).unwrap();
    assert_eq!(targets.iter().map(|target| target.weight.get()).collect::<Vec<_>>(), [1, 3, 1, 1]);
    assert_eq!(&*targets[1].base_path, "/base");
    assert_eq!(targets[3].address, TargetAddress::Service("_a._tcp.test".into()));
    let json = r#"["http://10.0.0.1:8001", {"url": "http://10.0.0.2:8001/base", "weight": 3}, "unix:/run/a.sock", "srv+http://_a._tcp.test"]"#;
    assert_eq!(read_text(json).unwrap(), targets);
    assert_eq!(read_text("[]").unwrap(), []);
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_a_remedy() {
    let file = |text: &str| read_text(text).expect_err(text);
    for (text, place, words) in [
        ("", "targets.yaml:1:1: ", "write a list of URLs, or `[]`"),
        ("# nothing yet\n", "targets.yaml:1:1: ", "write a list of URLs, or `[]`"),
        ("- http://a\n- b\n", "targets.yaml:2:3: ", "write `http://HOST:PORT`"),
        ("- http://a\n- {url: http://b, wieght: 2}\n", "targets.yaml:2:19: ", "did you mean `weight`?"),
        ("- http://a\n- http://a\n", "targets.yaml:2:3: ", "named twice"),
        ("- {url: srv+http://_a._tcp.b, weight: 2}\n", "targets.yaml:1:3: ", "each SRV record has its own"),
        ("- endpoints:x\n", "targets.yaml:1:3: ", "those of a controller"),
        ("- https://a\n", "targets.yaml:1:3: ", "`tls.roots`"),
        ("- http://${HOME}\n", "targets.yaml:1:3: ", "`HOME` is not set"),
        ("[\"http://a\", \"http://b\"", "targets.yaml:1:1: ", "unclosed bracket"),
        ("targets: [http://a]\n", "targets.yaml:1:1: ", "expected a list"),
    ] {
        let message = file(text);
        assert!(message.starts_with(place) && message.contains(words), "{text:?}: {message}");
    }
    // Nothing of a list with one mistake is taken.
    let message = file(&("- http://a:1\n".repeat(2) + "- oops\n- http://b\n"));
    assert!(message.contains("targets.yaml:3:3"), "{message}");
}

#[test]
fn as_many_targets_as_are_allowed_are_read_and_no_more() {
    let list = |count: usize| -> String {
        (0..count).map(|n| format!("- http://10.{}.{}.1:80\n", n / 250, n % 250)).collect()
    };
    assert_eq!(read_text(&list(MAX_TARGETS)).unwrap().len(), MAX_TARGETS);
    let message = read_text(&list(MAX_TARGETS + 1)).expect_err("one too many");
    assert!(
        message.starts_with("targets.yaml:10001:3: an upstream has at most 10000 targets, and here are 10001"),
        "{message}"
    );
}

#[test]
fn only_a_regular_file_of_bounded_size_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| TargetFile::read(path).targets(&RULES).expect_err("an error").to_string();
    assert!(error(directory.path()).contains("not a regular file"));
    assert!(error(&directory.path().join("missing")).contains("cannot read the file of targets"));
    let path = directory.path().join("targets.yaml");
    let fifo = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(fifo.success());
    assert!(error(&path).contains("not a regular file"));
    fs::remove_file(&path).unwrap();
    File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
    assert!(error(&path).contains("more than 8 MiB"));
    fs::write(&path, b"- http://\xff\n").unwrap();
    assert!(error(&path).contains("not UTF-8"));
}
