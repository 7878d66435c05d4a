//! A second opinion: HTTP/1.1 read straight from the grammar of RFC 9112 and RFC 9110. It shares no code with the codec, knows no
//! increments, copies everything and takes its time.

/// What bytes are, seen from the start of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A whole message.
    Message(Message),
    /// The beginning of one.
    Incomplete,
    /// No message; the rule is named.
    Invalid(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Method, target and version, or version, status and reason.
    pub start: [Vec<u8>; 3],
    /// Names in lower case, values without white space around them.
    pub fields: Vec<(String, Vec<u8>)>,
    pub framing: Framing,
    pub body: Vec<u8>,
    /// Bytes of the whole message, an empty line before it included.
    pub length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    None,
    Length,
    Chunked,
    UntilClose,
}

impl Message {
    /// All values of a field.
    pub fn values(&self, name: &str) -> Vec<&[u8]> {
        self.fields.iter().filter(|(other, _)| other == name).map(|(_, value)| &value[..]).collect()
    }

    /// Whether the body's end is found without the connection's.
    pub fn is_framed(&self) -> bool {
        self.framing != Framing::UntilClose
    }
}

/// Why reading cannot go on.
enum Stop {
    /// More is needed.
    Incomplete,
    /// A rule is broken.
    Invalid(&'static str),
}

type Step<T> = Result<T, Stop>;

fn reading(step: Step<Message>) -> Reading {
    match step {
        Ok(message) => Reading::Message(message),
        Err(Stop::Incomplete) => Reading::Incomplete,
        Err(Stop::Invalid(rule)) => Reading::Invalid(rule),
    }
}

/// Reads the request that `bytes` begin with.
pub fn request(bytes: &[u8]) -> Reading {
    reading(read_request(bytes))
}

/// Reads the response that `bytes` begin with, to a request with `method`. `closed` says that nothing follows them.
pub fn response(bytes: &[u8], method: &[u8], closed: bool) -> Reading {
    reading(read_response(bytes, method, closed))
}

fn invalid<T>(rule: &'static str) -> Step<T> {
    Err(Stop::Invalid(rule))
}

fn read_request(bytes: &[u8]) -> Step<Message> {
    // 2.2: at least one empty line before the request line is ignored; here exactly one.
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    let (lines, head_length) = head_lines(&bytes[skipped..])?;
    let parts: Vec<&[u8]> = lines[0].split(|&byte| byte == b' ').collect();
    let [method, target, version] = parts[..] else { return invalid("3: three parts with single spaces") };
    if !is_token(method) {
        return invalid("3.1: method is a token");
    }
    if target.is_empty() || !target.iter().all(|byte| (0x21..=0x7e).contains(byte)) {
        return invalid("3.2: target is visible ASCII");
    }
    check_version(version)?;
    let fields = read_fields(&lines[1..])?;
    let hosts: Vec<_> = fields.iter().filter(|(name, _)| name == "host").collect();
    if hosts.len() > 1 || (hosts.is_empty() && version == b"HTTP/1.1") {
        return invalid("3.2: one Host");
    }
    check_target(method, target, hosts.first().map(|(_, host)| &host[..]))?;

    let framing = match (transfer_codings(&fields), content_length(&fields)?) {
        (Some(_), _) if version == b"HTTP/1.0" => return invalid("6.1: Transfer-Encoding in HTTP/1.0"),
        (Some(_), Some(_)) => return invalid("6.3: both framings"),
        (Some(codings), None) if codings == ["chunked"] => (Framing::Chunked, 0),
        (Some(_), None) => return invalid("6.3: the last coding is not chunked, or others precede it"),
        (None, Some(length)) => (Framing::Length, length),
        (None, None) => (Framing::None, 0),
    };
    let start = [method.to_vec(), target.to_vec(), version.to_vec()];
    finish(bytes, skipped + head_length, start, fields, framing, false)
}

fn read_response(bytes: &[u8], method: &[u8], closed: bool) -> Step<Message> {
    let (lines, head_length) = head_lines(bytes)?;
    let line = lines[0];
    let Some((version, rest)) = line.split_at_checked(8) else { return invalid("4: status line") };
    check_version(version)?;
    let Some(rest) = rest.strip_prefix(b" ") else { return invalid("4: one space") };
    let Some((status, rest)) = rest.split_at_checked(3) else { return invalid("4: three digits") };
    if !status.iter().all(u8::is_ascii_digit) || status[0] == b'0' {
        return invalid("4: three digits");
    }
    let reason = match rest.strip_prefix(b" ") {
        Some(reason) => reason,
        None if rest.is_empty() => rest,
        None => return invalid("4: a space before the reason"),
    };
    if has_control(reason) {
        return invalid("4: control in the reason");
    }
    let fields = read_fields(&lines[1..])?;
    let (codings, length) = (transfer_codings(&fields), content_length(&fields)?);
    if codings.is_some() && (version == b"HTTP/1.0" || length.is_some()) {
        return invalid("6.1, 6.3: Transfer-Encoding in HTTP/1.0 or with Content-Length");
    }
    if codings.as_ref().is_some_and(|codings| codings != &["chunked"]) {
        return invalid("6.3: a coding other than chunked");
    }
    let has_none = method == b"HEAD" || status[0] == b'1' || status == b"204" || status == b"304";
    let framing = match (has_none, codings, length) {
        (true, ..) => (Framing::None, 0),
        (false, Some(_), _) => (Framing::Chunked, 0),
        (false, None, Some(length)) => (Framing::Length, length),
        (false, None, None) => (Framing::UntilClose, 0),
    };
    let start = [version.to_vec(), status.to_vec(), trim(reason).to_vec()];
    finish(bytes, head_length, start, fields, framing, closed)
}

fn finish(
    bytes: &[u8],
    head_length: usize,
    start: [Vec<u8>; 3],
    fields: Vec<(String, Vec<u8>)>,
    (framing, length): (Framing, u64),
    closed: bool,
) -> Step<Message> {
    let rest = &bytes[head_length..];
    let (body, used) = match framing {
        Framing::None => (Vec::new(), 0),
        Framing::Length if length > rest.len() as u64 => return Err(Stop::Incomplete),
        Framing::Length => (rest[..length as usize].to_vec(), length as usize),
        Framing::Chunked => chunked_body(rest)?,
        Framing::UntilClose if closed => (rest.to_vec(), rest.len()),
        Framing::UntilClose => return Err(Stop::Incomplete),
    };
    Ok(Message { start, fields, framing, body, length: head_length + used })
}

/// The lines of a head without their ends, and its length (2.1). A head ends at its first empty line, and nothing but CRLF ends a line.
fn head_lines(bytes: &[u8]) -> Step<(Vec<&[u8]>, usize)> {
    let mut lines = Vec::new();
    let mut at = 0;
    loop {
        let (line, next) = crlf_line(bytes, at)?;
        at = next;
        if line.is_empty() {
            return if lines.is_empty() { invalid("2.2: empty line before the start line") } else { Ok((lines, at)) };
        }
        lines.push(line);
    }
}

fn crlf_line(bytes: &[u8], start: usize) -> Step<(&[u8], usize)> {
    for at in start..bytes.len() {
        match bytes[at] {
            b'\n' => return invalid("2.2: bare LF"),
            b'\r' => {
                return match bytes.get(at + 1) {
                    Some(b'\n') => Ok((&bytes[start..at], at + 2)),
                    Some(_) => invalid("2.2: bare CR"),
                    None => Err(Stop::Incomplete),
                };
            }
            _ => {}
        }
    }
    Err(Stop::Incomplete)
}

fn check_version(version: &[u8]) -> Step<()> {
    if version == b"HTTP/1.1" || version == b"HTTP/1.0" { Ok(()) } else { invalid("2.3: version") }
}

/// `field-line = field-name ":" OWS field-value OWS` (5)
fn read_fields(lines: &[&[u8]]) -> Step<Vec<(String, Vec<u8>)>> {
    let mut fields = Vec::new();
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return invalid("5: no colon") };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !is_token(name) {
            return invalid("5.1: name is a token");
        }
        if has_control(value) {
            return invalid("9110 5.5: control in a value");
        }
        fields.push((String::from_utf8(name.to_ascii_lowercase()).unwrap(), trim(value).to_vec()));
    }
    Ok(fields)
}

/// 6.2
fn content_length(fields: &[(String, Vec<u8>)]) -> Step<Option<u64>> {
    let values: Vec<&[u8]> =
        fields.iter().filter(|(name, _)| name == "content-length").map(|(_, value)| &value[..]).collect();
    match values[..] {
        [] => Ok(None),
        [value] if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
            match String::from_utf8_lossy(value).parse() {
                Ok(length) => Ok(Some(length)),
                Err(_) => invalid("6.2: overflow"),
            }
        }
        _ => invalid("6.3: invalid Content-Length"),
    }
}

/// All codings of all lines in lower case, the empty ones too (6.1).
fn transfer_codings(fields: &[(String, Vec<u8>)]) -> Option<Vec<String>> {
    let lines: Vec<String> = fields
        .iter()
        .filter(|(name, _)| name == "transfer-encoding")
        .map(|(_, value)| value.iter().map(|&byte| char::from(byte)).collect())
        .collect();
    if lines.is_empty() {
        return None;
    }
    Some(lines.join(",").split(',').map(|coding| coding.trim_matches([' ', '\t']).to_ascii_lowercase()).collect())
}

/// 3.2.1 to 3.2.4, and Host as RFC 9110 section 7.2 has it.
fn check_target(method: &[u8], target: &[u8], host: Option<&[u8]>) -> Step<()> {
    let target = String::from_utf8_lossy(target).into_owned();
    if method == b"CONNECT" {
        return invalid("3.2.3: CONNECT is not implemented");
    }
    if target.contains('#') {
        return invalid("3.2: fragment");
    }
    if let Some(host) = host {
        check_authority(&String::from_utf8_lossy(host))?;
    }
    if target.starts_with('/') {
        return Ok(());
    }
    if target == "*" {
        return if method == b"OPTIONS" { Ok(()) } else { invalid("3.2.4: OPTIONS *") };
    }
    let Some((scheme, rest)) = target.split_once("://") else { return invalid("3.2: form of the target") };
    if !matches!(&scheme.to_ascii_lowercase()[..], "http" | "https") {
        return invalid("3.2.2: scheme");
    }
    check_authority(rest.split(['/', '?']).next().unwrap_or_default())
}

/// `uri-host [":" port]` (RFC 3986 section 3.2), not empty, no userinfo.
fn check_authority(authority: &str) -> Step<()> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return invalid("3986 3.2.2: bracket") };
        if !address.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.') || !address.contains(':') {
            return invalid("3986 3.2.2: IPv6 address");
        }
        (address, port)
    } else {
        authority.find(':').map_or((authority, ""), |colon| authority.split_at(colon))
    };
    if host.is_empty() {
        return invalid("9110 4.2.1: empty host");
    }
    if !host.chars().all(|c| c.is_ascii_alphanumeric() || "-._~!$&'()*+;=%:".contains(c)) {
        return invalid("3986 3.2.2: host");
    }
    match port.strip_prefix(':') {
        Some(digits) if digits.chars().all(|c| c.is_ascii_digit()) => Ok(()),
        None if port.is_empty() => Ok(()),
        _ => invalid("3986 3.2.3: port"),
    }
}

/// 7.1: `*chunk last-chunk trailer-section CRLF`. Returns the data and the length of its coding.
fn chunked_body(bytes: &[u8]) -> Step<(Vec<u8>, usize)> {
    let mut data = Vec::new();
    let mut at = 0;
    loop {
        let (size, next) = chunk_line(bytes, at)?;
        at = next;
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).or(Err(Stop::Incomplete))?;
        let Some(piece) = at.checked_add(size).and_then(|end| bytes.get(at..end)) else {
            return Err(Stop::Incomplete);
        };
        data.extend_from_slice(piece);
        at += size;
        let end = &bytes[at..bytes.len().min(at + 2)];
        if !b"\r\n".starts_with(end) {
            return invalid("7.1: CRLF behind the data");
        }
        if end.len() < 2 {
            return Err(Stop::Incomplete);
        }
        at += 2;
    }
    let mut lines = Vec::new();
    loop {
        let (line, next) = crlf_line(bytes, at)?;
        at = next;
        if line.is_empty() {
            read_fields(&lines)?;
            return Ok((data, at));
        }
        lines.push(line);
    }
}

/// `chunk-size [ chunk-ext ] CRLF`
fn chunk_line(bytes: &[u8], start: usize) -> Step<(u64, usize)> {
    let (line, next) = crlf_line(bytes, start)?;
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let Ok(size) = u64::from_str_radix(&String::from_utf8_lossy(&line[..digits]), 16) else {
        return invalid("7.1: chunk size");
    };
    extensions(&line[digits..])?;
    Ok((size, next))
}

/// 7.1.1: `*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )`
fn extensions(mut rest: &[u8]) -> Step<()> {
    fn blank(rest: &mut &[u8]) {
        *rest = &rest[rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..];
    }
    fn token(rest: &mut &[u8]) -> bool {
        let length = rest.iter().take_while(|&&byte| is_token(&[byte])).count();
        *rest = &rest[length..];
        length > 0
    }
    while !rest.is_empty() {
        blank(&mut rest);
        let Some(behind) = rest.strip_prefix(b";") else { return invalid("7.1.1: no semicolon") };
        rest = behind;
        blank(&mut rest);
        if !token(&mut rest) {
            return invalid("7.1.1: no name");
        }
        let before = rest;
        blank(&mut rest);
        let Some(behind) = rest.strip_prefix(b"=") else {
            rest = before;
            continue;
        };
        rest = behind;
        blank(&mut rest);
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            let Some(length) = quoted_length(quoted) else { return invalid("7.1.1: quoted string") };
            rest = &quoted[length..];
        } else if !token(&mut rest) {
            return invalid("7.1.1: no value");
        }
    }
    Ok(())
}

/// Length of the rest of a quoted string, closing quote included (RFC 9110 section 5.6.4).
fn quoted_length(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            0x00..=0x08 | 0x0a..=0x1f | 0x7f => return None,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// `field-content` and `reason-phrase` have HTAB, SP, VCHAR and obs-text (RFC 9110 section 5.5, RFC 9112 section 4).
fn has_control(text: &[u8]) -> bool {
    text.iter().any(|&byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f)
}

fn is_token(bytes: &[u8]) -> bool {
    const SPECIAL: &[u8] = b"!#$%&'*+-.^_`|~";
    !bytes.is_empty() && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || SPECIAL.contains(byte))
}

fn trim(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().take_while(is_blank).count();
    let end = value.len() - value[start..].iter().rev().take_while(is_blank).count();
    &value[start..end]
}
