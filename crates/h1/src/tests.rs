//! Tests of the codec; one file a subject.
mod smoke {
    use crate::*;
    #[test]
    fn a_request_is_parsed() {
        let buf = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n";
        let mut scanner = HeadScanner::new();
        let end = scanner.scan(buf, &Limits::default()).unwrap().unwrap();
        assert_eq!(end, buf.len());
        let mut head = RequestHead::default();
        head.parse(buf, 0, end, &Limits::default()).unwrap();
        assert_eq!(head.path.of_buf(buf), b"/a");
        assert_eq!(head.query.unwrap().of_buf(buf), b"b=c");
        assert_eq!(head.fields.iter().last().unwrap().line().of_buf(buf), b"Accept: */*\r\n");
    }
}
