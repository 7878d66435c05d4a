use super::*;

fn rules() -> Compression {
    Compression {
        codings: Coding::ALL.to_vec(),
        levels: [1, 0, 1],
        min_bytes: 0,
        types: ::compress::MediaTypes::default(),
        with_set_cookie: false,
    }
}

#[test]
fn encoders_are_lent_up_to_the_bound_and_free_it_once() {
    let memory = Memory::default();
    let most = MEMORY / Coding::Brotli.memory();
    let mut lent: Vec<_> =
        std::iter::from_fn(|| memory.encoder(&rules(), Coding::Brotli, Some(10))).take(most + 1).collect();
    assert_eq!(lent.len(), most);
    let (_, mut first) = lent.pop().unwrap();
    first.release();
    drop(first);
    assert!(memory.encoder(&rules(), Coding::Brotli, None).is_some(), "what is released is not released twice");
    drop(lent);
    assert_eq!(memory.0.get(), 0);
}

#[test]
fn a_weak_tag_stays_as_it_is() {
    for (etag, weak) in [("\"a\"", "ETag: W/\"a\"\r\n"), ("W/\"a\"", "ETag: W/\"a\"\r\n")] {
        let mut out = Vec::new();
        write_weak_etag(&mut out, etag.as_bytes());
        assert_eq!(out, weak.as_bytes());
    }
}
