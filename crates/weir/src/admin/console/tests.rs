//! The files of the pages.

use super::assets::{FILES, PAGE};

#[test]
fn the_pages_name_files_that_are_there_and_nothing_else() {
    let known = |name: &str| FILES.iter().any(|(file, ..)| *file == name);
    let quoted = |text: &str, before: &str| -> Vec<String> {
        text.split(before).skip(1).map(|rest| rest.split(['"', '\'']).next().unwrap_or_default().to_owned()).collect()
    };
    let linked: Vec<String> = [quoted(PAGE, "href=\""), quoted(PAGE, "src=\"")].concat();
    assert_eq!(linked.iter().filter(|name| known(name)).count(), 4, "{linked:?}");
    assert!(linked.iter().all(|name| known(name) || name == "#main"), "{linked:?}");
    let scripts = || FILES.iter().filter(|(name, ..)| name.ends_with(".js"));
    for (name, _, script) in scripts() {
        for imported in quoted(script, "from './") {
            assert!(known(&imported), "{name} imports {imported}");
        }
    }
    let used = |file: &str| {
        linked.iter().any(|name| name == file) || scripts().any(|(.., s)| s.contains(&format!("'./{file}'")))
    };
    assert!(FILES.iter().all(|(name, ..)| used(name)), "a file is used by no page");
}

/// What the policy would refuse anyway is not in the files: neither inline code, nor anything of another origin, nor text read as HTML.
#[test]
fn the_pages_hold_nothing_that_the_policy_refuses() {
    for (name, content) in FILES.iter().map(|(name, _, content)| (*name, *content)).chain([("index.html", PAGE)]) {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            " style=",
            " onclick=",
            "@import",
            "url(",
        ] {
            assert!(!content.contains(word), "{name} has {word}");
        }
        let content = content.replace("http://www.w3.org/2000/svg", "");
        let others = content.split("http").skip(1).filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
        let others: Vec<&str> = others.filter(|rest| !rest.contains("api.example.com")).collect();
        assert!(others.is_empty(), "{name} names another origin: {others:?}");
    }
    assert!(!PAGE.contains("<style") && !PAGE.contains("<script>"), "inline");
}

#[test]
fn errors_are_shown_without_the_lines_that_they_quote() {
    let error = "weir.yaml:3:18: `token` is too short\n  3 | console: {token: secret}\n    |                  ^\n\nweir.yaml:12:1: second\n 12 | a | b\n    | ^";
    let shown = super::without_excerpts(error);
    assert_eq!(shown, "weir.yaml:3:18: `token` is too short\n\nweir.yaml:12:1: second");
}

/// They are in the program, and every reader of the repository has to be able to read them.
#[test]
fn the_files_stay_small() {
    let bytes: usize = FILES.iter().map(|(.., content)| content.len()).sum();
    assert!(bytes < 64 * 1024, "{bytes} bytes");
}
