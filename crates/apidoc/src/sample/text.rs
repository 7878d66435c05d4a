//! Example strings: by format, by length, and the shortest one for most regular expressions that descriptions use.

/// Longest string that is made, in characters.
const LONGEST: u64 = 65_536;

/// A string of that format, length and pattern, and whether it is sure to fit.
pub(super) fn string(
    format: Option<&str>,
    min: Option<u64>,
    max: Option<u64>,
    pattern: Option<&str>,
) -> (String, bool) {
    let (least, most) = (min.unwrap_or(0), max.unwrap_or(u64::MAX));
    let fits = |text: &str| (least..=most).contains(&(text.chars().count() as u64));
    if let Some(pattern) = pattern {
        let plain = format.map_or("string", of_format);
        return match Pattern::parse(pattern).map(|p| p.shortest(least)) {
            Some(text) if fits(&text) => (text, true),
            _ => (plain.to_owned(), false),
        };
    }
    let text = format.map_or("string", of_format);
    if fits(text) {
        return (text.to_owned(), true);
    }
    if least > LONGEST {
        return (text.to_owned(), false);
    }
    let wanted = (text.chars().count() as u64).clamp(least, most.max(least)) as usize;
    let made: String = text.chars().cycle().take(wanted).collect();
    // a date that was cut is no date
    let sure = fits(&made) && (made.len() <= text.len() || text == "string" || text == "password");
    (made, sure || text == "string")
}

fn of_format(format: &str) -> &'static str {
    match format {
        "date" => "2024-01-01",
        "date-time" | "datetime" | "datetime-only" => "2024-01-01T00:00:00Z",
        "time" | "time-only" => "00:00:00Z",
        "duration" => "P1D",
        "uuid" | "guid" => "00000000-0000-4000-8000-000000000000",
        "email" | "idn-email" => "user@example.com",
        "uri" | "url" | "iri" => "https://example.com/",
        "uri-reference" | "iri-reference" | "uri-template" => "/",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "byte" | "base64" | "base64url" => "AA==",
        "json-pointer" => "/a",
        "regex" => "a",
        "password" => "password",
        _ => "string",
    }
}

/// A regular expression (ECMA 262, as JSON Schema uses it) as far as an example needs it: alternatives of sequences.
struct Pattern(Vec<Vec<Piece>>);

struct Piece {
    atom: Atom,
    min: u32,
    max: u32,
}

enum Atom {
    Char(char),
    Group(Pattern),
}

impl Pattern {
    /// `None` for what is not understood: look-around, back references, syntax errors.
    fn parse(text: &str) -> Option<Pattern> {
        let chars: Vec<char> = text.chars().collect();
        let mut parser = Parser { chars: &chars, at: 0, depth: 0 };
        let pattern = parser.alternatives()?;
        (parser.at == chars.len()).then_some(pattern)
    }

    /// A short string that matches, with repetitions used until `least` characters are reached where they allow it.
    fn shortest(&self, least: u64) -> String {
        let base = self.length();
        let mut missing = least.saturating_sub(base).min(LONGEST);
        let mut out = String::new();
        if base <= LONGEST {
            self.write(&mut missing, &mut out);
        }
        out
    }

    fn best(&self) -> &[Piece] {
        let length = |pieces: &Vec<Piece>| pieces.iter().fold(0u64, |n, p| n.saturating_add(p.length()));
        self.0.iter().min_by_key(|pieces| length(pieces)).map_or(&[], Vec::as_slice)
    }

    fn length(&self) -> u64 {
        self.best().iter().fold(0, |n, p| n.saturating_add(p.length()))
    }

    fn write(&self, missing: &mut u64, out: &mut String) {
        for piece in self.best() {
            let one = piece.one().max(1);
            let more = missing.div_ceil(one).min(u64::from(piece.max - piece.min));
            *missing = missing.saturating_sub(more * one);
            for _ in 0..u64::from(piece.min) + more {
                match &piece.atom {
                    Atom::Char(c) => out.push(*c),
                    Atom::Group(group) => group.write(&mut 0, out),
                }
            }
        }
    }
}

impl Piece {
    fn one(&self) -> u64 {
        match &self.atom {
            Atom::Char(_) => 1,
            Atom::Group(group) => group.length(),
        }
    }

    fn length(&self) -> u64 {
        self.one().saturating_mul(u64::from(self.min))
    }
}

struct Parser<'c> {
    chars: &'c [char],
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn alternatives(&mut self) -> Option<Pattern> {
        self.depth += 1;
        if self.depth > 20 {
            return None;
        }
        let mut all = vec![self.sequence()?];
        while self.eat("|") {
            all.push(self.sequence()?);
        }
        self.depth -= 1;
        Some(Pattern(all))
    }

    fn sequence(&mut self) -> Option<Vec<Piece>> {
        let mut pieces = Vec::new();
        while let Some(c) = self.peek() {
            let atom = match c {
                '|' | ')' => break,
                '^' | '$' => {
                    self.at += 1;
                    continue;
                }
                '(' => self.group()?,
                '[' => Some(Atom::Char(self.class()?)),
                '\\' => self.escape()?,
                '.' => {
                    self.at += 1;
                    Some(Atom::Char('a'))
                }
                '*' | '+' | '?' => return None,
                c => {
                    self.at += 1;
                    Some(Atom::Char(c))
                }
            };
            let (min, max) = self.quantifier()?;
            if let Some(atom) = atom {
                pieces.push(Piece { atom, min, max });
            }
        }
        Some(pieces)
    }

    fn group(&mut self) -> Option<Option<Atom>> {
        self.at += 1;
        if self.eat("?") && !self.eat(":") {
            // a name; look-around and flags are not understood
            let named = self.eat("P<") || (self.eat("<") && !matches!(self.peek(), Some('=' | '!')));
            if !named {
                return None;
            }
            while self.take()? != '>' {}
        }
        let inside = self.alternatives()?;
        self.eat(")").then_some(Some(Atom::Group(inside)))
    }

    /// `None` inside: an assertion, which takes no characters.
    fn escape(&mut self) -> Option<Option<Atom>> {
        self.at += 1;
        let c = self.take()?;
        if matches!(c, 'b' | 'B' | 'A' | 'z' | 'Z') {
            return Some(None);
        }
        self.escaped(c).map(|c| Some(Atom::Char(c)))
    }

    /// A character that the escape `c` stands for or is one of.
    fn escaped(&mut self, c: char) -> Option<char> {
        Some(match c {
            'd' => '0',
            'w' | 'D' | 'S' => 'a',
            's' => ' ',
            'W' => '-',
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'x' => self.hex(2)?,
            'u' => self.hex(4)?,
            'p' => {
                if !self.eat("{") {
                    return None;
                }
                let start = self.at;
                while self.take()? != '}' {}
                match self.chars.get(start)? {
                    'L' if self.chars.get(start + 1) == Some(&'u') => 'A',
                    'L' => 'a',
                    'N' => '0',
                    'P' => '-',
                    'Z' => ' ',
                    _ => return None,
                }
            }
            c if c.is_ascii_alphanumeric() => return None,
            c => c,
        })
    }

    fn hex(&mut self, digits: usize) -> Option<char> {
        let mut n = 0;
        for _ in 0..digits {
            n = n * 16 + self.take()?.to_digit(16)?;
        }
        char::from_u32(n)
    }

    fn class(&mut self) -> Option<char> {
        self.at += 1;
        let negated = self.eat("^");
        let mut ranges: Vec<(char, char)> = Vec::new();
        let mut first = true;
        loop {
            let c = match self.take()? {
                ']' if !first => break,
                '\\' => {
                    let c = self.take()?;
                    if negated && matches!(c, 'd' | 'w' | 's') {
                        ranges.extend(match c {
                            'd' => &[('0', '9')][..],
                            'w' => &[('0', '9'), ('a', 'z'), ('A', 'Z'), ('_', '_')][..],
                            _ => &[(' ', ' '), ('\t', '\r')][..],
                        });
                        first = false;
                        continue;
                    }
                    if matches!(c, 'W' | 'D' | 'S' | 'p') && negated {
                        return None;
                    }
                    self.escaped(c)?
                }
                c => c,
            };
            first = false;
            if self.peek() == Some('-') && self.chars.get(self.at + 1).is_some_and(|c| *c != ']') {
                self.at += 1;
                let end = match self.take()? {
                    '\\' => {
                        let c = self.take()?;
                        self.escaped(c)?
                    }
                    c => c,
                };
                ranges.push((c, end));
            } else {
                ranges.push((c, c));
            }
        }
        let inside = |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
        if negated {
            return "a0A-_ .~!".chars().find(|c| !inside(*c));
        }
        // a letter or digit reads better than punctuation
        "a0A".chars().find(|c| inside(*c)).or_else(|| ranges.first().map(|(low, _)| *low))
    }

    fn quantifier(&mut self) -> Option<(u32, u32)> {
        let many = u32::MAX;
        let bounds = match self.peek() {
            Some('*') => (0, many),
            Some('+') => (1, many),
            Some('?') => (0, 1),
            Some('{') => {
                let rest: String = self.chars[self.at + 1..].iter().take_while(|c| **c != '}').collect();
                let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n <= 100_000);
                let (min, max) = match rest.split_once(',') {
                    Some((min, "")) => (number(min)?, many),
                    Some((min, max)) => (number(min)?, number(max)?),
                    None => (number(&rest)?, number(&rest)?),
                };
                self.at += rest.chars().count() + 1;
                (min, max.max(min))
            }
            _ => return Some((1, 1)),
        };
        self.at += 1;
        let _lazy = self.eat("?");
        Some(bounds)
    }
}

#[cfg(test)]
mod tests;
