use super::{Form, FormDefect};
use proptest::prelude::*;

const TYPE: &[u8] = b"multipart/form-data; boundary=xYz";

fn part(head: &str, content: &str) -> String {
    format!("--xYz\r\n{head}\r\n\r\n{content}\r\n")
}

fn field(name: &str, content: &str) -> String {
    part(&format!("Content-Disposition: form-data; name=\"{name}\""), content)
}

fn whole(parts: &[String]) -> Vec<u8> {
    format!("{}--xYz--\r\n", parts.concat()).into_bytes()
}

fn defect(body: &[u8]) -> Option<FormDefect> {
    Form::read(TYPE, body).err().map(|error| error.defect)
}

#[test]
fn the_model_is_found_and_replaced_where_it_stands() {
    let file = part(
        "Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav",
        "RIFF--xYz\n",
    );
    for (model, at) in [
        (field("model", "whisper-1"), 0),
        (part("content-DISPOSITION:form-data ;NAME=model", "whisper-1"), 1),
        (
            part(
                "Content-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain; charset=\"UTF-8\"\r\nX: y",
                "whisper-1",
            ),
            2,
        ),
    ] {
        let mut parts = vec![file.clone(), field("language", "en")];
        parts.insert(at, model);
        let body = whole(&parts);
        let form = Form::read(TYPE, &body).unwrap();
        assert_eq!(form.model(&body), Some("whisper-1"));
        assert!(form.edits(&body, "whisper-1").is_empty());
        let after = form.edits(&body, "größer/v3").apply(&body);
        assert_eq!(
            String::from_utf8(after).unwrap(),
            String::from_utf8(body).unwrap().replace("whisper-1", "größer/v3")
        );
    }
}

#[test]
fn a_form_without_a_model_gets_one_in_front() {
    for parts in [vec![], vec![field("language", "en")], vec![field("empty", "")]] {
        let body = whole(&parts);
        let form = Form::read(TYPE, &body).unwrap();
        assert_eq!(form.model(&body), None);
        let after = form.edits(&body, "m").apply(&body);
        assert_eq!(after, whole(&[vec![field("model", "m")], parts].concat()));
        assert_eq!(Form::read(TYPE, &after).unwrap().model(&after), Some("m"));
    }
}

/// It is not what the client gets, but no provider may read it either.
#[test]
fn a_model_behind_64_kib_is_not_read_but_replaced() {
    for (bytes, is_read) in [(60_000, true), (70_000, false)] {
        let body = whole(&[field("file", &"a".repeat(bytes)), field("model", "large")]);
        let form = Form::read(TYPE, &body).unwrap();
        assert_eq!(form.model(&body).is_some(), is_read);
        assert_eq!(form.model_anywhere(&body), Some("large"));
        let after = String::from_utf8(form.edits(&body, "small").apply(&body)).unwrap();
        assert!(after.contains("\r\nsmall\r\n") && !after.contains("large") && after.matches("\"model\"").count() == 1);
    }
    let twice = whole(&[field("model", "small"), field("file", &"a".repeat(70_000)), field("model", "large")]);
    assert_eq!(defect(&twice), Some(FormDefect::DuplicateModel));
}

#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    use FormDefect as D;
    let one = field("model", "m");
    let named = |parameters: &str| part(&format!("Content-Disposition: form-data; {parameters}"), "m");
    for (body, expected) in [
        (whole(&[one.clone(), one.clone()]), D::DuplicateModel),
        (whole(&[field("Model", "m")]), D::ModelVariant),
        (whole(&[field(" model", "m")]), D::ModelVariant),
        (whole(&[named("name=\"model\"; filename=\"m\"")]), D::ModelValue),
        (whole(&[named("name=\"model\"; FileName*=UTF-8''m")]), D::ModelValue),
        (
            whole(&[part(
                "Content-Disposition: form-data; name=model\r\nContent-Type: text/plain; charset=utf-16",
                "m",
            )]),
            D::ModelValue,
        ),
        (
            whole(&[part("Content-Disposition: form-data; name=model\r\nContent-Type: application/json", "m")]),
            D::ModelValue,
        ),
        (
            whole(&[part("Content-Disposition: form-data; name=model\r\nContent-Transfer-Encoding: base64", "bQ==")]),
            D::ModelValue,
        ),
        (whole(&[field("model", "a\r\nb")]), D::ModelValue),
        (whole(&[field("model", &"m".repeat(1025))]), D::ModelValue),
        (whole(&[field("model[]", "m")]), D::ModelVariant),
        (whole(&[field("MODEL[0]", "m")]), D::ModelVariant),
        (whole(&[field("mod%65l", "m")]), D::Disposition),
        (whole(&[field("=?utf-8?B?bW9kZWw=?=", "m")]), D::Disposition),
        (whole(&[named("name=\"mo\\del\"")]), D::Disposition),
        (whole(&[named("name=\"a\"; name=\"model\"")]), D::Disposition),
        (whole(&[named("name=\"a\"; name*=\"model\"")]), D::Disposition),
        (whole(&[named("name=\"a\"; name*0=\"model\"")]), D::Disposition),
        (whole(&[named("filename=\"a\\\"; name=\"model\"")]), D::Disposition),
        (whole(&[named("name=\"a\" b")]), D::Disposition),
        (whole(&[named("name=\"a\";")]), D::Disposition),
        (whole(&[named("name=\"a")]), D::Disposition),
        (whole(&[named("filename=\"a\"")]), D::Disposition),
        (whole(&[part("Content-Disposition: attachment; name=\"a\"", "m")]), D::Disposition),
        (whole(&[part("Content-Type: text/plain", "m")]), D::Disposition),
        (
            whole(&[part(
                "Content-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"model\"",
                "m",
            )]),
            D::Disposition,
        ),
        (whole(&[part("Content-Disposition: form-data;\r\n name=\"model\"", "m")]), D::Disposition),
        (whole(&[part("Content-Disposition: form-data; name=\"a\"\r\n b: c", "m")]), D::PartHead),
        (whole(&[part("Content-Disposition: form-data; name=\"a\"\nX: y", "m")]), D::PartHead),
        (whole(&[part("Content-Disposition : form-data; name=\"a\"", "m")]), D::PartHead),
        (whole(&[part("no colon", "m")]), D::PartHead),
        (whole(&[part(&format!("X: {}", "y".repeat(9000)), "m")]), D::PartHead),
        ([b"preamble\r\n".as_slice(), &whole(std::slice::from_ref(&one))].concat(), D::Start),
        ([b"\r\n".as_slice(), &whole(std::slice::from_ref(&one))].concat(), D::Start),
        ([&whole(std::slice::from_ref(&one)), b"epilogue".as_slice()].concat(), D::BytesBehind),
        (format!("{one}--xYz-- ").into_bytes(), D::BytesBehind),
        (format!("{one}--xYz \r\n").into_bytes(), D::Delimiter),
        (whole(&[field("a", "line\n--xYz\nContent-Disposition: form-data; name=\"model\"\n\nm")]), D::Delimiter),
        (whole(&[field("a", "line\r--xYz--")]), D::Delimiter),
        (whole(&[field("a", "line\r\n--xYzabc")]), D::Delimiter),
        (b"--xYz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n--xYz--".to_vec(), D::Delimiter),
        (one.into_bytes(), D::Truncated),
        (b"--xYz".to_vec(), D::Truncated),
        (Vec::new(), D::Start),
    ] {
        assert_eq!(defect(&body), Some(expected), "{}", String::from_utf8_lossy(&body));
    }
    let body = whole(&[field("model", "m")]);
    for kind in [
        "",
        "multipart/mixed; boundary=xYz",
        "multipart/form-data; boundary=xYz; charset=utf-7",
        "multipart/form-data; boundary=xYz; charset=cp037",
        "multipart/form-data; charset=\"; boundary=Y; \"; boundary=xYz",
        "multipart/form-data; boundary=xYz; x=y",
        "multipart/form-data; boundary=\"x Yz\"",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=xYz; boundary=xYz",
        "multipart/form-data; boundary=xYz; boundary*=other",
        "multipart/form-data; boundary=\"xYz \"",
        "multipart/form-data; boundary=\"xY\\z\"",
        "multipart/form-data; boundary=xYz;",
        "multipart/form-data; boundary=xYz, text/plain",
        "application/json",
    ] {
        assert_eq!(Form::read(kind.as_bytes(), &body).unwrap_err().defect, FormDefect::ContentType, "{kind}");
    }
    for kind in ["MULTIPART/form-data;boundary=\"xYz\"", "multipart/form-data; charset=utf-8; Boundary=xYz"] {
        assert_eq!(Form::read(kind.as_bytes(), &body).unwrap().model(&body), Some("m"), "{kind}");
    }
    let longest = "b".repeat(70);
    for (boundary, is_read) in [(longest.clone(), true), (format!("{longest}b"), false)] {
        let kind = format!("multipart/form-data; boundary={boundary}");
        let body = format!("--{boundary}--");
        assert_eq!(Form::read(kind.as_bytes(), body.as_bytes()).is_ok(), is_read);
    }
}

#[test]
fn errors_say_where() {
    let body = whole(&[field("a", "b"), field("model", "a\tb")]);
    let error = Form::read(TYPE, &body).unwrap_err();
    assert_eq!(error.to_string(), "the field 'model' is not a line of plain text in UTF-8 (at byte 61)");
    assert!(error.defect.is_of_model() && !FormDefect::Start.is_of_model());
}

prop_compose! {
    /// A field with any content in which no line begins with the delimiter.
    fn fields()(
        name in "[a-zA-Z_\\[\\]]{1,9}",
        file in proptest::option::of("[a-z .]{0,9}"),
        content in proptest::collection::vec(any::<u8>(), 0..200),
    ) -> (String, Option<String>, Vec<u8>) {
        (name, file, content)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_fields_in_any_order_with_any_boundary(
        boundary in "[a-zA-Z0-9'()+_,./:=?-]{6,70}",
        fields in proptest::collection::vec(fields(), 0..6),
        place in any::<prop::sample::Index>(),
        has_model in any::<bool>(),
        is_ended in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let delimiter = format!("--{boundary}");
        let clash = fields.iter().any(|(name, _, content)| {
            name.eq_ignore_ascii_case("model") || content.windows(delimiter.len()).any(|part| part == delimiter.as_bytes())
        });
        prop_assume!(!clash);
        let write = |model: Option<&str>| {
            let mut parts: Vec<Vec<u8>> = fields
                .iter()
                .map(|(name, file, content)| {
                    let file = file.as_ref().map_or(String::new(), |file| format!("; filename=\"{file}\"\r\nContent-Type: image/png"));
                    let head = format!("{delimiter}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
                    [head.as_bytes(), content, b"\r\n"].concat()
                })
                .collect();
            if let Some(model) = model {
                let at = place.index(parts.len() + 1);
                parts.insert(at, format!("{delimiter}\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n").into());
            }
            let end = format!("{delimiter}--{}", if is_ended { "\r\n" } else { "" });
            [parts.concat(), end.into_bytes()].concat()
        };
        let body = write(has_model.then_some("a model"));
        let kind = format!("multipart/form-data; boundary=\"{boundary}\"");
        let form = Form::read(kind.as_bytes(), &body).unwrap();
        prop_assert_eq!(form.model(&body), has_model.then_some("a model"));
        let after = form.edits(&body, "served").apply(&body);
        let again = Form::read(kind.as_bytes(), &after).unwrap();
        prop_assert_eq!(again.model(&after), Some("served"));
        if has_model {
            prop_assert_eq!(after, write(Some("served")));
        } else {
            prop_assert!(after.ends_with(&body));
        }
        // A form that was cut is none, but for its last line end.
        let whole = body.strip_suffix(b"\r\n").unwrap_or(&body);
        prop_assert!(Form::read(kind.as_bytes(), &body[..cut.index(whole.len())]).is_err());
    }

    #[test]
    fn any_bytes_end_in_a_form_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..300), kind in ".{0,80}") {
        let _ = Form::read(kind.as_bytes(), &body);
        let _ = Form::read(b"multipart/form-data; boundary=b", &[b"--b\r\n", body.as_slice()].concat());
    }
}

#[test]
fn what_a_provider_is_told_of_a_form_has_its_boundary_only() {
    for kind in [
        "multipart/form-data; boundary=xYz",
        "Multipart/Form-Data ; boundary=\"xYz\"",
        "multipart/form-data; charset=UTF-8; boundary=xYz",
        "multipart/form-data; boundary=xYz; charset=us-ascii",
    ] {
        let form = Form::read(kind.as_bytes(), &whole(&[field("model", "m")])).unwrap();
        assert_eq!(form.content_type(), b"multipart/form-data; boundary=\"xYz\"", "{kind}");
    }
}

/// Each byte of the file is the beginning of a delimiter in the middle of a line: reading it must not take the square of its length. By a count of steps
/// it cannot be told; in a quadratic reader this test takes minutes.
#[test]
fn a_file_of_dashes_is_read_as_any_other() {
    let boundary = "-".repeat(70);
    let kind = format!("multipart/form-data; boundary={boundary}");
    let body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n{}\r\n--{boundary}--\r\n",
        "x".to_owned() + &"-".repeat(16 << 20)
    );
    let form = Form::read(kind.as_bytes(), body.as_bytes()).unwrap();
    assert_eq!(form.model(body.as_bytes()), None);
}

#[test]
fn a_form_says_whether_it_wants_events() {
    for (value, wants) in
        [("true", true), ("1", true), ("True", true), ("false", false), ("False", false), ("0", false), ("", false)]
    {
        let body = whole(&[field("model", "m"), field("stream", value)]);
        assert_eq!(Form::read(TYPE, &body).unwrap().streams, wants, "{value}");
    }
}
