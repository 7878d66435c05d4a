//! Every evaluation of examples/ can be run: its operations are in its API, its files are there, the generator takes its workloads.

use std::path::Path;

use gauge::plan::Plan;

#[test]
fn every_example_is_valid_in_full_and_as_a_first_look() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evaluations");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the examples").flatten() {
        let file = entry.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".yaml") || name.ends_with(".openapi.yaml") {
            continue;
        }
        let plan = Plan::read(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            Path::new(&name).file_stem().and_then(|stem| stem.to_str()),
            Some(plan.name.as_str()),
            "the name is the file's"
        );
        assert!(plan.systems.len() >= 3, "{name}: two systems and a control at least");
        let rounds = plan.repeats;
        let quick = plan.quick();
        assert!(quick.quick && quick.repeats <= rounds);
        count += 1;
    }
    assert!(count >= 5, "only {count} examples were found");
}
