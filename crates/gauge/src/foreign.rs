//! Text of others in a message: what a server, or another program, has sent must neither move the cursor of a terminal nor fill it.

/// Characters of one text.
const CHARACTERS: usize = 200;
/// Texts of one list.
const TEXTS: usize = 20;

/// One line of printable characters, and not a long one.
pub(crate) fn shown(text: &str) -> String {
    first(text, CHARACTERS)
}

/// The same, of so many characters at most.
pub(crate) fn first(text: &str, most: usize) -> String {
    let mut shown = String::new();
    for (at, one) in text.chars().enumerate() {
        if at == most {
            shown.push_str("...");
            break;
        }
        if is_printable(one) { shown.push(one) } else { shown.extend(one.escape_default()) }
    }
    shown
}

/// Neither a control character, nor one that is invisible or changes the direction of what follows.
fn is_printable(one: char) -> bool {
    !one.is_control()
        && !matches!(one, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The first texts of a list, and how many more there are.
pub(crate) fn list(all: &[String]) -> String {
    let mut shown = all.iter().take(TEXTS).map(|text| first(text, 60)).collect::<Vec<_>>().join(", ");
    if all.len() > TEXTS {
        shown.push_str(&format!(" and {} more", all.len() - TEXTS));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_neither_moves_the_cursor_nor_fills_the_terminal() {
        assert_eq!(shown("caf\u{e9} `a`"), "caf\u{e9} `a`");
        assert_eq!(shown("\u{1b}[2J\r\n\u{9b}31m\u{202e}x"), "\\u{1b}[2J\\r\\n\\u{9b}31m\\u{202e}x");
        assert_eq!(shown(&"x".repeat(1_000_000)), format!("{}...", "x".repeat(200)));
        let many: Vec<String> = (0..1000).map(|number| format!("s{number}\u{7}")).collect();
        let list = list(&many);
        assert!(list.starts_with("s0\\u{7}, s1\\u{7}, ") && list.ends_with("s19\\u{7} and 980 more"), "{list}");
    }
}
