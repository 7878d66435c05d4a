use super::*;

#[test]
fn paths_are_exact_templates_or_wildcards() {
    let path = |text: &str| text.parse::<Path>().unwrap().0;
    assert_eq!(path("/"), PathPattern::Exact("/".into()));
    assert_eq!(path("/a/b/"), PathPattern::Exact("/a/b/".into()));
    assert_eq!(path("/*"), PathPattern::Prefix("/".into()));
    assert_eq!(path("/a/*"), PathPattern::Prefix("/a/".into()));
    let literal = |text: &str| Segment::Literal(text.into());
    let id = Segment::Param("id".into());
    assert_eq!(
        path("/a/{id}/"),
        PathPattern::Template { segments: vec![literal("a"), id.clone(), literal("")], wildcard: false }
    );
    assert_eq!(path("/{id}/*"), PathPattern::Template { segments: vec![id], wildcard: true });
    assert_eq!(path("/café"), PathPattern::Exact("/caf%C3%A9".into()));
    assert_eq!(path("/a/**"), PathPattern::Below("/a".into()));
    assert_eq!(path("/**"), PathPattern::Below("".into()));
    assert!("/{id}/**".parse::<Path>().is_err() && "/a/../**".parse::<Path>().is_err());
    assert_eq!(path("/.well-known/x"), PathPattern::Exact("/.well-known/x".into()));
}

#[test]
fn paths_are_written_as_they_are_read() {
    for text in ["/", "/a", "/a/", "/*", "/a/*", "/**", "/a/**", "/a/{id}", "/a/{id}/", "/{x}/b/{y}/*", "/a:b@c"] {
        assert_eq!(text.parse::<Path>().unwrap().to_string(), text);
    }
}

#[test]
fn an_expression_that_no_path_can_match_is_refused() {
    for text in [
        "~/a",
        "~.*",
        "~.*admin",
        "~[^a]b",
        "~(?i)/Admin",
        "~(/a|b)",
        "~a?/b",
        "~(a|b)*/c",
        r"~\x2fa",
        "~^/a",
        r"~\B/",
        "~(?-u:/)a",
        "~[!-~]+",
        "~(?s).a",
    ] {
        assert!(text.parse::<Path>().is_ok(), "{text}");
    }
    for text in [
        "~admin",
        "~(admin|users)/.*",
        "~[a-z]+",
        r"~\w+/.*",
        "~a{2,}/",
        "~(?i)admin",
        "~(a|b)+/c",
        "~^admin",
        "~[^/].*",
        "~$",
        "~a*",
    ] {
        let refusal = text.parse::<Path>().unwrap_err();
        assert!(refusal.contains("could never match") && refusal.contains("write `~/"), "{refusal}");
    }
}

#[test]
fn hosts_are_exact_or_suffixes_in_lower_case() {
    let host = |text: &str| text.parse::<Host>().unwrap();
    assert_eq!(host("API.Example.com.").0, HostPattern::Exact("api.example.com".into()));
    assert_eq!(host("*.Example.com").0, HostPattern::Suffix("example.com".into()));
    assert_eq!(host("[0::1]").0, HostPattern::Exact("[::1]".into()));
    for text in ["api.example.com", "*.example.com", "[::1]"] {
        assert_eq!(host(text).to_string(), text);
    }
}
