use super::*;

#[test]
fn another_machine_is_told_by_what_differs() {
    let then = Environment { host: Some("a".to_owned()), cpus: Some(2), ..Environment::default() };
    assert_eq!(differences(&then, &then), [""; 0]);
    let now = Environment {
        cpus: Some(4),
        commit: Some("abc".to_owned()),
        pinned: BTreeMap::from([("system".to_owned(), vec![0])]),
        ..then.clone()
    };
    assert_eq!(
        differences(&then, &now),
        ["`commit` was null and is \"abc\"", "`cpus` was 2 and is 4", "`pinned` was {} and is {\"system\":[0]}"]
    );
}
