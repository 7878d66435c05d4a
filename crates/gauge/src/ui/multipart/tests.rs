use proptest::prelude::*;

use super::{Parts, Upload, parse};

fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        let file = file.map_or(String::new(), |file| format!("; filename=\"{file}\"\r\nContent-Type: text/plain"));
        body.extend(format!("--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").bytes());
        body.extend(*content);
        body.extend(b"\r\n");
    }
    body.extend(b"--XyZ--\r\n");
    body
}

const KIND: &str = "multipart/form-data; boundary=XyZ";

#[test]
fn fields_and_the_file_are_read() {
    let body = form(&[
        ("csrf", None, b"secret"),
        ("empty", None, b""),
        ("file", Some("a;b.yaml"), b"openapi: 3.1.0\r\n--XyY\r\n"),
        ("second", Some("c"), b"left out"),
    ]);
    let parts = parse(KIND, &body).expect("a form");
    assert_eq!(parts.fields, [("csrf".to_owned(), "secret".to_owned()), ("empty".to_owned(), String::new())]);
    let upload = Upload { name: "a;b.yaml".to_owned(), bytes: b"openapi: 3.1.0\r\n--XyY\r\n".to_vec() };
    assert_eq!(parts.upload, Some(upload));
    assert_eq!(parse("multipart/form-data; charset=utf-8; boundary=\"XyZ\"", &body), Ok(parts));
}

#[test]
fn a_form_without_a_chosen_file_has_none() {
    assert_eq!(parse(KIND, &form(&[("file", Some(""), b"")])), Ok(Parts::default()));
}

#[test]
fn broken_forms_are_refused() {
    let whole = form(&[("a", None, b"b")]);
    for (kind, body) in [
        ("multipart/form-data", &whole[..]),
        ("multipart/form-data; boundary=", &whole),
        ("multipart/form-data; boundary=other", &whole),
        (KIND, &whole[..whole.len() - 12]),
        (KIND, b"--XyZ\r\nContent-Disposition: form-data; name=\"a\"\r\n"),
        (KIND, b"--XyZ\r\nX: y\r\n\r\nz\r\n--XyZ--"),
        (KIND, b"--XyZ"),
        (KIND, b""),
    ] {
        assert!(parse(kind, body).is_err(), "{kind}: {}", String::from_utf8_lossy(body));
    }
}

proptest! {
    #[test]
    fn no_input_panics(kind in "multipart/form-data; ?boundary=.{0,8}", body in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&kind, &body);
    }

    #[test]
    fn pieces_in_any_order_do_not_panic(pieces in prop::collection::vec(prop::sample::select(vec![
        "--XyZ", "\r\n", "--", "\r\n\r\n", "Content-Disposition: form-data; name=\"a\"", "; filename=\"b\"", "x", "\"", ";", "=",
    ]), 0..30)) {
        let _ = parse(KIND, pieces.concat().as_bytes());
    }

    #[test]
    fn any_content_comes_back(content in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assume!(!content.windows(5).any(|window| window == b"--XyZ"));
        let parts = parse(KIND, &form(&[("file", Some("f"), &content)])).expect("a form");
        prop_assert_eq!(parts.upload.map(|upload| upload.bytes), Some(content));
    }
}
