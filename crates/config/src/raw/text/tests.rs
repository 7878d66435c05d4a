use super::*;

#[test]
fn texts_are_written_as_they_are_read() {
    assert_eq!("[::1]:8080".parse::<Address>().unwrap().to_string(), "[::1]:8080");
    assert_eq!("10.0.0.0/8".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
    assert_eq!("10.1.2.3".parse::<Network>().unwrap().to_string(), "10.1.2.3");
    assert_eq!("10.1.2.3/32".parse::<Network>().unwrap().to_string(), "10.1.2.3");
    assert_eq!("fd00::/8".parse::<Network>().unwrap().to_string(), "fd00::/8");
    assert_eq!("200-399".parse::<StatusRange>().unwrap().to_string(), "200-399");
    assert_eq!("204".parse::<StatusRange>().unwrap().to_string(), "204");
    assert_eq!("0-16".parse::<GrpcStatusRange>().unwrap().to_string(), "0-16");
    assert_eq!("14".parse::<GrpcStatusRange>().unwrap().to_string(), "14");
    assert_eq!("X-Request-Id".parse::<FieldName>().unwrap().to_string(), "X-Request-Id");
}

#[test]
fn statuses_of_grpc_are_0_to_16() {
    for text in ["", "17", "014", "-1", "+1", "14-2", "1-", "1-2-3", "UNAVAILABLE", "14 "] {
        assert!(text.parse::<GrpcStatusRange>().is_err(), "{text}");
    }
}

#[test]
fn statuses_have_three_digits_and_an_order() {
    for text in ["", "20", "2000", "099", "600", "399-200", "200-", "-200", "200-300-400", "2xx", "+20-300"] {
        assert!(text.parse::<StatusRange>().is_err(), "{text}");
    }
}

#[test]
fn values_of_fields_cannot_carry_another_field() {
    for text in ["qq\r\nX: b", "qq\nb", "qq\0", "qq\u{7f}", " qq", "qq ", "\tqq", "qq\u{e9}"] {
        let error = text.parse::<FieldValue>().unwrap_err();
        assert!(!error.contains("qq"), "values are not shown: {error}");
    }
    for text in ["", "a", "a b\tc", "~!\"#"] {
        assert_eq!(text.parse::<FieldValue>().unwrap().0, text);
    }
    assert!(!format!("{:?}", FieldValue("hidden".to_owned())).contains("hidden"));
}

#[test]
fn names_fit_into_metrics_headers_and_keys() {
    let long = "a".repeat(65);
    for text in ["", "none", "a b", "a/b", "-a", ".a", "a:b", "é", &long] {
        assert!(text.parse::<Name>().is_err(), "{text}");
    }
    for text in ["a", "per_client", "v1.2-beta", "_x", "0"] {
        assert!(text.parse::<Name>().is_ok(), "{text}");
    }
}
