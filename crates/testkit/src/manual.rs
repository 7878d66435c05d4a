//! Pages of the documentation that the code writes: a test compares, and writes anew with `WEIR_UPDATE=1`.

use std::fs;
use std::path::Path;
use std::process::Command;

const BEGIN: &str = "<!-- generated: begin -->";
const END: &str = "<!-- generated: end -->";

/// Help of `program` and of all its subcommands, as sections of Markdown.
pub fn commands(program: &str, name: &str) -> String {
    let mut out = String::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let help = help(program, &path);
        let title = [&[name], path.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat().join(" ");
        out.push_str(&format!("\n## `{title}`\n\n```text\n{help}\n```\n"));
        open.extend(subcommands(&help).into_iter().rev().map(|one| [path.as_slice(), &[one]].concat()));
    }
    out
}

fn help(program: &str, path: &[String]) -> String {
    let output = Command::new(program).env_clear().args(path).arg("--help").output().unwrap();
    assert!(output.status.success(), "{program} {path:?} --help: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}

/// Names in the list of commands, without `help` itself.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A long description goes on in further lines, which are indented more.
    let names = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Asserts that `page` has `generated` between its two marks; with `WEIR_UPDATE=1` it is written there.
pub fn assert_generated(page: &Path, generated: &str) {
    let text = fs::read_to_string(page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("{} has no {BEGIN}", page.display()));
    let (there, after) = rest.split_once(END).unwrap_or_else(|| panic!("{} has no {END}", page.display()));
    let wanted = format!("\n{}\n\n", generated.trim_matches('\n'));
    if std::env::var_os("WEIR_UPDATE").is_some() {
        return fs::write(page, format!("{before}{BEGIN}\n{wanted}{END}{after}")).unwrap();
    }
    let wanted = wanted.trim_matches('\n');
    let there = there.trim_matches('\n');
    if let Some((line, (is, should))) =
        there.lines().zip(wanted.lines()).enumerate().find(|(_, (is, should))| is != should)
    {
        panic!(
            "{}: generated line {}:\n  is:     {is}\n  should: {should}\nWEIR_UPDATE=1 writes it anew",
            page.display(),
            line + 1
        );
    }
    assert_eq!(there.lines().count(), wanted.lines().count(), "{}: WEIR_UPDATE=1 writes it anew", page.display());
}
