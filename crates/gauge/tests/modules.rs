//! The picture of the modules: who knows whom has no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "tests") {
            files(&entry, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") && !entry.ends_with("tests.rs") {
            found.push(entry);
        }
    }
}

/// Each module of the library with those that its code names, tests and comments left out.
fn picture() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut picture) = (Vec::new(), BTreeMap::<String, BTreeSet<String>>::new());
    files(&root, &mut found);
    for file in found {
        let module = file.strip_prefix(&root).expect("below it").components().next().expect("a name");
        let module = module.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        // The program knows the library, and the library does not know the program.
        if ["lib", "main", "verbs", "cli"].contains(&module.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a file");
        let code = text.split("#[cfg(test)]\nmod tests {").next().expect("a part");
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let known = lines.flat_map(|line| line.split("crate::").skip(1)).map(|rest| {
            rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().expect("a part").to_owned()
        });
        let known: BTreeSet<String> = known.filter(|known| !known.is_empty() && *known != module).collect();
        picture.entry(module).or_default().extend(known);
    }
    picture
}

#[test]
fn no_modules_depend_on_each_other_in_a_circle() {
    let mut picture = picture();
    assert!(picture.len() > 15, "{picture:?}");
    assert_eq!(
        picture["results"],
        BTreeSet::from(["stats".to_owned()]),
        "the data model depends on no module that uses it"
    );
    // A module that depends on none of those left is removed, until no module is left.
    loop {
        let left: BTreeSet<String> = picture.keys().cloned().collect();
        let before = picture.len();
        picture.retain(|_, known| !known.is_disjoint(&left));
        if picture.len() == before {
            break;
        }
    }
    assert!(picture.is_empty(), "these are in a circle, or know one that is: {picture:#?}");
}
