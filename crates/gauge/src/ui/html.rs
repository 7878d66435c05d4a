//! Text that becomes HTML. Whatever comes from outside goes through [`text`].

use std::fmt::Write as _;

/// A text as HTML has it, in an element or in a quoted attribute.
pub(super) fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // HTML has no such characters (section 13.1.4).
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A part of a path or a value of a query (RFC 3986: all but unreserved characters are encoded).
pub(super) fn url(raw: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    raw.bytes().fold(String::new(), |mut out, byte| {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// A link; `to` is made of parts that went through [`url`].
pub(super) fn link(to: &str, shown: &str) -> String {
    format!("<a href=\"{}\">{}</a>", text(to), text(shown))
}

/// The state of something as a small label.
pub(super) fn tag(state: &str) -> String {
    let class = match state {
        "done" | "ended" => "good",
        "running" | "starting" | "warming" | "measuring" => "on",
        "failed" | "worse" => "bad",
        "void" | "aborted" | "stopped" => "warn",
        "better" => "good",
        _ => "",
    };
    format!("<span class=\"tag {class}\">{}</span>", text(state))
}

/// A cell of a table: HTML, and whether it is a figure.
pub(super) enum Cell {
    Text(String),
    Number(String),
    /// The head of its row.
    Head(String),
}

/// A table. On a narrow screen each row is a card, whose values have the names of their columns beside them. `caption` is text; cells are HTML.
pub(super) fn table(caption: &str, columns: &[&str], rows: &[Vec<Cell>]) -> String {
    let name = text(caption);
    let mut out = format!(
        "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\"><table><caption>{name}</caption><thead><tr>"
    );
    for (index, column) in columns.iter().enumerate() {
        let numeric = rows.iter().any(|row| matches!(row.get(index), Some(Cell::Number(_))));
        let class = if numeric { " class=\"number\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", text(column));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (cell, column) in row.iter().zip(columns) {
            let label = text(column);
            let _ = match cell {
                Cell::Head(html) => write!(out, "<th scope=\"row\">{html}</th>"),
                Cell::Text(html) => write!(out, "<td data-label=\"{label}\"><span>{html}</span></td>"),
                Cell::Number(html) => {
                    write!(out, "<td class=\"number\" data-label=\"{label}\"><span>{html}</span></td>")
                }
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// A text with its lines as they are, such as a file.
pub(super) fn lines(raw: &str, label: &str) -> String {
    format!("<pre tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</pre>", text(label), text(raw))
}

/// Names and values, both of them text.
pub(super) fn facts<'f>(facts: impl IntoIterator<Item = (&'f str, String)>) -> String {
    let one = |(name, value): (&str, String)| format!("<dt>{}</dt><dd>{}</dd>", text(name), text(&value));
    format!("<dl class=\"facts\">{}</dl>", facts.into_iter().map(one).collect::<String>())
}

/// Choices of a `select`, each a value and what is shown.
pub(super) fn options<'o>(choices: impl IntoIterator<Item = (&'o str, &'o str)>, selected: &str) -> String {
    let one = |(value, shown): (&str, &str)| {
        let mark = if value == selected { " selected" } else { "" };
        format!("<option value=\"{}\"{mark}>{}</option>", text(value), text(shown))
    };
    choices.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::{text, url};

    #[test]
    fn markup_becomes_text() {
        assert_eq!(text("<a href=\"x\" y='&'>\0"), "&lt;a href=&quot;x&quot; y=&#39;&amp;&#39;&gt;\u{fffd}");
        assert_eq!(url("a/b?c=d&é"), "a%2Fb%3Fc%3Dd%26%C3%A9");
    }
}
