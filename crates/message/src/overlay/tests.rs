use super::*;
use crate::{FieldsView, RequestHead, RequestView, ResponseHead, ResponseView};
use proptest::prelude::*;

fn section(lines: &[(&str, &str)]) -> (Fields, Vec<u8>) {
    let (mut fields, mut text) = (Fields::default(), Vec::new());
    for (name, value) in lines {
        assert!(fields.append(&mut text, name.as_bytes(), value.as_bytes()));
    }
    (fields, text)
}

fn lines(view: FieldsView<'_>) -> String {
    let mut text = Vec::new();
    view.runs(|_| true, |run| text.extend_from_slice(run));
    String::from_utf8(text).expect("ASCII")
}

#[test]
fn a_view_shows_the_head_with_its_changes() {
    let (fields, text) = section(&[("Host", "a"), ("X-One", "1"), ("X-Two", "2"), ("x-one", "3")]);
    let mut overlay = Overlay::default();
    assert!(overlay.is_empty());
    overlay.set(&fields, &text, b"x-one", b"new").expect("a token");
    overlay.add(b"via", b"1.1 w\r\nx: y").expect("a token");
    overlay.add(b"gone", b"1").expect("a token");
    overlay.remove_all(&fields, &text, b"GONE");
    assert_eq!(overlay.add(b"no token", b""), Err(InvalidName));
    let view = FieldsView::with_overlay(&fields, &text, &overlay);
    assert_eq!(lines(view), "Host: a\r\nX-Two: 2\r\nx-one: new\r\nvia: 1.1 wx: y\r\n");
    assert_eq!(view.get(b"X-One"), Some(&b"new"[..]));
    assert_eq!(view.first(Known::Via), Some(&b"1.1 wx: y"[..]));
    assert_eq!(view.first(Known::Host), Some(&b"a"[..]));
    overlay.clear();
    assert!(overlay.is_empty());
    assert_eq!(lines(FieldsView::with_overlay(&fields, &text, &overlay)).as_bytes(), text);
}

#[test]
fn neighbouring_lines_are_one_run() {
    let (fields, text) = section(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    let mut runs = Vec::new();
    FieldsView::new(&fields, &text).runs(|field| field.name.of_buf(&text) != b"c", |run| runs.push(run.to_vec()));
    assert_eq!(runs, [&b"a: 1\r\nb: 2\r\n"[..], b"d: 4\r\n"]);
}

#[test]
fn target_authority_and_status_are_replaced_only_by_valid_ones() {
    let (fields, text) = section(&[]);
    let mut overlay = Overlay::default();
    assert!(!overlay.set_authority(b"user@host") && !overlay.set_target(b"/a b") && !overlay.set_target(b"x"));
    assert!(overlay.is_empty());
    assert!(overlay.set_authority(b"host:80") && overlay.set_target(b"/p?q"));
    let head = RequestHead { fields, ..RequestHead::default() };
    let view = RequestView::new(&head, &text, &overlay);
    assert_eq!(view.authority(), Some(&b"host:80"[..]));
    assert_eq!(view.path_and_query(), (&b"/p"[..], Some(&b"q"[..])));
    overlay.set_status(404);
    let head = ResponseHead { status: 200, ..ResponseHead::default() };
    assert_eq!(ResponseView::new(&head, b"", &overlay).status(), 404);
}

proptest! {
    /// A view equals a plain list with the same changes; everything it shows keeps the invariants of fields.
    #[test]
    fn a_view_equals_a_list_with_the_same_changes(
        head in proptest::collection::vec(("[a-c]|via|cookie", "[a-z ]{0,4}"), 0..80),
        changes in proptest::collection::vec((0..3u8, "[a-cA-C]|Via|cookie", any::<Vec<u8>>()), 0..12),
    ) {
        let pairs: Vec<_> = head.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (fields, text) = section(&pairs);
        let mut overlay = Overlay::default();
        let mut model: Vec<(String, Vec<u8>)> =
            head.iter().map(|(name, value)| (name.clone(), value.trim().as_bytes().to_vec())).collect();
        for (kind, name, value) in &changes {
            let clean: Vec<u8> = value.iter().copied().filter(|&byte| crate::validate::is_text_byte(byte)).collect();
            let clean = crate::validate::trim(&clean).to_vec();
            if *kind > 0 {
                model.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
                overlay.remove_all(&fields, &text, name.as_bytes());
            }
            if *kind < 2 {
                model.push((name.clone(), clean));
                prop_assert!(overlay.add(name.as_bytes(), value).is_ok());
            }
        }
        let view = FieldsView::with_overlay(&fields, &text, &overlay);
        let seen: Vec<_> = view.fields().map(|(_, name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec())).collect();
        prop_assert_eq!(seen, model);
        prop_assert_eq!(overlay.added().verify(overlay.text()), Ok(()));
    }
}
