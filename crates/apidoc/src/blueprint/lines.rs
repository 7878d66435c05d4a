//! The structure of the Markdown that API Blueprint is written in: metadata, headings, nested lists and code.
//!
//! Only what carries meaning there is distinguished; inline markup is text. A line of a list item that is indented by eight
//! columns or more below the item is code, as in Markdown (four for the item, four for the code).

/// A document.
#[derive(Debug, Default)]
pub(super) struct Outline<'t> {
    /// `KEY: value` lines at the top.
    pub(super) metadata: Vec<(&'t str, &'t str)>,
    /// Headings with what follows each, in order.
    pub(super) sections: Vec<Section<'t>>,
}

/// A heading and the lists below it.
#[derive(Debug)]
pub(super) struct Section<'t> {
    pub(super) level: usize,
    pub(super) title: &'t str,
    pub(super) line: u32,
    pub(super) items: Vec<Item<'t>>,
}

/// An item of a list.
#[derive(Clone, Debug)]
pub(super) struct Item<'t> {
    pub(super) line: u32,
    indent: usize,
    /// What stands behind the marker.
    pub(super) text: &'t str,
    /// The lines below it that are no items.
    content: Vec<&'t str>,
    pub(super) items: Vec<Item<'t>>,
}

/// Items in items, at most: deeper ones are content.
const DEEPEST: usize = 30;

/// Finds the structure of `text`.
pub(super) fn outline(text: &str) -> Outline<'_> {
    let mut out = Outline::default();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = metadata(&lines, &mut out);
    // open items, outermost first, of the list that is being read
    let mut open: Vec<Item<'_>> = Vec::new();
    let mut fence: Option<&str> = None;
    while at < lines.len() {
        let line = lines[at];
        let number = at as u32 + 1;
        at += 1;
        let trimmed = line.trim_start();
        if let Some(mark) = fence {
            if trimmed.starts_with(mark) {
                fence = None;
            }
            push_content(&mut open, line);
            continue;
        }
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            fence = Some(&trimmed[..3]);
            push_content(&mut open, line);
            continue;
        }
        if let Some((level, title)) = heading(line) {
            close(&mut open, 0, &mut out);
            out.sections.push(Section { level, title, line: number, items: Vec::new() });
            continue;
        }
        if let Some(level) = lines.get(at).and_then(|next| underline(line, next)) {
            close(&mut open, 0, &mut out);
            out.sections.push(Section { level, title: line.trim(), line: number, items: Vec::new() });
            at += 1;
            continue;
        }
        let indent = indent(line);
        if let Some(text) = marker(trimmed) {
            // items that do not contain this one are closed
            let parent = open.iter().rposition(|item| indent >= item.indent + 2);
            let depth = parent.map_or(0, |p| p + 1);
            let is_code = match parent {
                Some(p) => indent >= open[p].indent + 8,
                None => indent >= 4,
            };
            if !is_code && depth < DEEPEST {
                close(&mut open, depth, &mut out);
                open.push(Item { line: number, indent, text, content: Vec::new(), items: Vec::new() });
                continue;
            }
        }
        if !trimmed.is_empty() && indent == 0 && lines.get(at.wrapping_sub(2)).is_some_and(|l| l.trim().is_empty()) {
            close(&mut open, 0, &mut out); // a paragraph after a blank line ends the list
        }
        push_content(&mut open, line);
    }
    close(&mut open, 0, &mut out);
    out
}

/// Reads `KEY: value` lines up to the first line of another form; gives the index of that.
fn metadata<'t>(lines: &[&'t str], out: &mut Outline<'t>) -> usize {
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        match line.split_once(':') {
            Some((key, value))
                if !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-') =>
            {
                out.metadata.push((key, value.trim()));
            }
            _ if line.trim().is_empty() => {}
            _ => break,
        }
        at += 1;
    }
    at
}

fn push_content<'t>(open: &mut [Item<'t>], line: &'t str) {
    if let Some(item) = open.last_mut() {
        item.content.push(line);
    }
}

/// Closes open items down to `depth`.
fn close<'t>(open: &mut Vec<Item<'t>>, depth: usize, out: &mut Outline<'t>) {
    while open.len() > depth {
        let Some(item) = open.pop() else { return };
        match open.last_mut() {
            Some(parent) => parent.items.push(item),
            None => {
                if let Some(section) = out.sections.last_mut() {
                    section.items.push(item);
                }
            }
        }
    }
}

/// `## Title` and its level.
fn heading(line: &str) -> Option<(usize, &str)> {
    let level = line.len() - line.trim_start_matches('#').len();
    let rest = &line[level..];
    ((1..=6).contains(&level)
        && (rest.starts_with([' ', '\t', '[']) || rest.chars().next().is_some_and(|c| c.is_alphabetic() || c == '/')))
    .then(|| (level, rest.trim().trim_end_matches('#').trim_end()))
}

/// The level of a heading that is underlined with `===` or `---`.
fn underline(line: &str, next: &str) -> Option<usize> {
    let next = next.trim_end();
    let title = !line.trim().is_empty() && indent(line) < 4 && marker(line.trim_start()).is_none();
    if !title || next.len() < 3 {
        return None;
    }
    if next.chars().all(|c| c == '=') {
        Some(1)
    } else if next.chars().all(|c| c == '-') {
        Some(2)
    } else {
        None
    }
}

/// Columns before the first character; a tab goes to the next multiple of four.
fn indent(line: &str) -> usize {
    let mut column = 0;
    for c in line.chars() {
        match c {
            ' ' => column += 1,
            '\t' => column = (column / 4 + 1) * 4,
            _ => break,
        }
    }
    column
}

/// The text of a list item.
fn marker(line: &str) -> Option<&str> {
    let rest = line.strip_prefix(['+', '-', '*'])?;
    if rest.is_empty() {
        return Some("");
    }
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

impl<'t> Item<'t> {
    /// An item that was none in the text.
    pub(super) fn named(text: &'t str, line: u32) -> Self {
        Item { line, indent: 0, text, content: Vec::new(), items: Vec::new() }
    }

    /// Whether the item begins with the keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        let rest = match self.text.get(..keyword.len()) {
            Some(start) if start.eq_ignore_ascii_case(keyword) => &self.text[keyword.len()..],
            _ => return false,
        };
        rest.is_empty() || rest.starts_with([' ', '(', ':', '\t'])
    }

    /// What stands behind the keyword.
    pub(super) fn after(&self, keyword: &str) -> &str {
        self.text.get(keyword.len()..).unwrap_or("").trim().trim_start_matches(':').trim()
    }

    /// The asset below the item: its fenced or indented code, or all its lines when `any` is set and there is no code.
    pub(super) fn asset(&self, any: bool) -> Option<String> {
        let mut code: Vec<&str> = Vec::new();
        let mut fence: Option<&str> = None;
        for line in &self.content {
            let trimmed = line.trim_start();
            match fence {
                Some(mark) if trimmed.starts_with(mark) => fence = None,
                Some(_) => code.push(line),
                None if trimmed.starts_with("```") || trimmed.starts_with("~~~") => {
                    fence = Some(&trimmed[..3]);
                }
                None if indent(line) >= self.indent + 8 || (trimmed.is_empty() && !code.is_empty()) => {
                    code.push(line);
                }
                None => {}
            }
        }
        let lines = if code.is_empty() && any { self.content.clone() } else { code };
        let text = dedent(&lines);
        (!text.is_empty()).then_some(text)
    }
}

/// The lines without the indentation that all have, and without blank lines at both ends.
fn dedent(lines: &[&str]) -> String {
    let common = lines.iter().filter(|l| !l.trim().is_empty()).map(|l| indent(l)).min().unwrap_or(0);
    let cut = |line: &&str| {
        let mut column = 0;
        let mut rest = *line;
        while column < common && rest.starts_with([' ', '\t']) {
            column = if rest.starts_with('\t') { (column / 4 + 1) * 4 } else { column + 1 };
            rest = &rest[1..];
        }
        rest.trim_end().to_owned()
    };
    let cut: Vec<String> = lines.iter().map(cut).collect();
    cut.join("\n").trim_matches('\n').to_owned()
}
