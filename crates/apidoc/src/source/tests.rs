use super::{Files, Source, is_remote, join, percent_decode};

#[test]
fn references_are_joined_as_urls_are() {
    for (base, reference, expected) in [
        ("api.yaml", "b.yaml", "b.yaml"),
        ("dir/api.yaml", "b.yaml", "dir/b.yaml"),
        ("dir/api.yaml", "./sub/b.yaml", "dir/sub/b.yaml"),
        ("dir/api.yaml", "../b.yaml", "b.yaml"),
        ("dir/api.yaml", "../../b.yaml", "../b.yaml"),
        ("/abs/api.yaml", "x/../b.yaml", "/abs/b.yaml"),
    ] {
        assert_eq!(join(base, reference), expected, "{base} {reference}");
    }
}

#[test]
fn schemes_and_hosts_are_remote() {
    for remote in ["http://a/b", "https://a", "//a/b", "urn:x:y", "file:///etc/passwd"] {
        assert!(is_remote(remote), "{remote}");
    }
    for local in ["a.yaml", "./a:b.yaml", "/a/b", "C:\\a", "", "a/b:c"] {
        assert!(!is_remote(local), "{local}");
    }
}

#[test]
fn percent_decoding_leaves_what_it_cannot_decode() {
    assert_eq!(percent_decode("a%20b%7Bc%7d%"), "a b{c}%");
    assert_eq!(percent_decode("%ff"), "%ff");
    assert_eq!(percent_decode("%zz%4"), "%zz%4");
}

#[test]
fn files_are_read_within_the_limit_and_only_regular_ones() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("a.yaml"), "0123456789").unwrap();
    let files = Files::anywhere();
    assert_eq!(files.read(&path("a.yaml"), 4).unwrap(), b"01234");
    assert!(files.read(&dir.path().to_string_lossy(), 4).unwrap_err().to_string().contains("not a regular file"));
    assert!(files.read("/dev/zero", 4).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn a_folder_can_be_all_that_may_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(dir.path().join("secret.yaml"), "a: 1").unwrap();
    std::fs::write(inside.join("a.yaml"), "a: 1").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(dir.path().join("secret.yaml"), inside.join("link.yaml")).unwrap();
    let files = Files::under(&inside).unwrap();
    let name = |p: &str| inside.join(p).to_string_lossy().into_owned();
    assert!(files.read(&name("a.yaml"), 10).is_ok());
    for outside in ["../secret.yaml", "link.yaml"] {
        assert_eq!(
            files.read(&name(outside), 10).unwrap_err().kind(),
            std::io::ErrorKind::PermissionDenied,
            "{outside}"
        );
    }
}
