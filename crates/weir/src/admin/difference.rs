//! The lines by which two texts differ (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986).

use serde::Serialize;

/// More lines than these that are only in one of the two texts are too many: time and memory grow with their square.
const MOST: usize = 500;
/// Equal lines that are shown before and after each change.
const CONTEXT: usize = 3;

/// By what a file differs from the configuration in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The lines; none when there are too many.
    pub lines: Option<Vec<Line>>,
    /// Whether something differs that is not shown, as a secret.
    pub differs_in_secrets: bool,
}

/// A line of the difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `-`: only in the first text; `+`: only in the second; a blank: in both; `@`: lines are left out.
    pub kind: char,
    /// The line, without its end.
    pub text: String,
}

/// What is different, with a few equal lines around it; empty when nothing is. `None`: too much.
pub fn difference(before: &str, after: &str) -> Option<Vec<Line>> {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let equal = |(one, other): &(&&str, &&str)| one == other;
    let start = before.iter().zip(&after).take_while(equal).count();
    let rest = (&before[start..], &after[start..]);
    let end = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(equal).count();
    let middle = (&before[start..before.len() - end], &after[start..after.len() - end]);
    let mut kinds = vec![' '; start];
    kinds.extend(edits(middle.0, middle.1)?);
    kinds.extend(std::iter::repeat_n(' ', end));
    Some(around_changes(&kinds, &before, &after))
}

/// For each line of both whether it is kept, removed or added, in order.
fn edits(before: &[&str], after: &[&str]) -> Option<Vec<char>> {
    let (n, m) = (before.len() as isize, after.len() as isize);
    let most = (MOST as isize).min(n + m);
    let at = |diagonal: isize| (diagonal + most + 1) as usize;
    // The furthest line of `before` that is reached on each diagonal.
    let mut furthest = vec![0isize; 2 * most as usize + 3];
    let mut steps = Vec::new();
    for d in 0..=most {
        steps.push(furthest.clone());
        for k in (-d..=d).step_by(2) {
            let goes_down = k == -d || (k != d && furthest[at(k - 1)] < furthest[at(k + 1)]);
            let mut x = if goes_down { furthest[at(k + 1)] } else { furthest[at(k - 1)] + 1 };
            while x < n && x - k < m && before[x as usize] == after[(x - k) as usize] {
                x += 1;
            }
            furthest[at(k)] = x;
            if x >= n && x - k >= m {
                return Some(way_back(&steps, (n, m), at));
            }
        }
    }
    None
}

fn way_back(steps: &[Vec<isize>], (n, m): (isize, isize), at: impl Fn(isize) -> usize) -> Vec<char> {
    let (mut x, mut y) = (n, m);
    let mut kinds = Vec::new();
    for (d, furthest) in steps.iter().enumerate().rev() {
        let (d, k) = (d as isize, x - y);
        let goes_down = k == -d || (k != d && furthest[at(k - 1)] < furthest[at(k + 1)]);
        let previous = if goes_down { k + 1 } else { k - 1 };
        let from = if d == 0 { 0 } else { furthest[at(previous)] };
        let begins = if d == 0 { 0 } else { from + isize::from(!goes_down) };
        while x > begins {
            kinds.push(' ');
            (x, y) = (x - 1, y - 1);
        }
        if d > 0 {
            kinds.push(if goes_down { '+' } else { '-' });
            (x, y) = (from, from - previous);
        }
    }
    kinds.reverse();
    kinds
}

fn around_changes(kinds: &[char], before: &[&str], after: &[&str]) -> Vec<Line> {
    let mut shown = vec![false; kinds.len()];
    for (index, _) in kinds.iter().enumerate().filter(|(_, kind)| **kind != ' ') {
        let end = (index + CONTEXT + 1).min(kinds.len());
        shown[index.saturating_sub(CONTEXT)..end].fill(true);
    }
    let mut lines = Vec::new();
    let (mut old, mut new) = (0, 0);
    let mut left_out = 0;
    for (kind, shown) in kinds.iter().zip(shown) {
        let text = if *kind == '+' { after[new] } else { before[old] };
        old += usize::from(*kind != '+');
        new += usize::from(*kind != '-');
        if !shown {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            lines.push(Line { kind: '@', text: format!("{left_out} equal lines") });
            left_out = 0;
        }
        lines.push(Line { kind: *kind, text: text.to_owned() });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> Vec<String> {
        let lines = difference(before, after).expect("not too much");
        lines.iter().map(|line| format!("{}{}", line.kind, line.text)).collect()
    }

    #[test]
    fn changed_lines_are_shown_with_what_is_around_them() {
        assert!(shown("a\nb\n", "a\nb\n").is_empty() && shown("", "").is_empty());
        assert_eq!(shown("", "a\n"), ["+a"]);
        assert_eq!(shown("a\n", ""), ["-a"]);
        assert_eq!(
            shown("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n5\nx\n7\n"),
            ["@2 equal lines", " 3", " 4", " 5", "-6", "+x", " 7", "-8"]
        );
    }

    /// What is applied to the first text gives the second one, and no smaller script does.
    #[test]
    fn the_script_leads_from_one_text_to_the_other() {
        let mut state = 7u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..500 {
            let mut text = |lines: u32| (0..lines).map(|_| random(4).to_string()).collect::<Vec<_>>();
            let (before, after) = (text(12), text(9));
            let old: Vec<&str> = before.iter().map(|line| &**line).collect();
            let new: Vec<&str> = after.iter().map(|line| &**line).collect();
            let kinds = edits(&old, &new).expect("short");
            let mut rest = old.iter();
            let mut others = new.iter();
            let mut made = Vec::new();
            for kind in &kinds {
                match kind {
                    ' ' => {
                        let line = rest.next().expect("a line");
                        assert_eq!(Some(line), others.next());
                        made.push(*line);
                    }
                    '-' => drop(rest.next().expect("a line")),
                    _ => made.push(others.next().expect("a line")),
                }
            }
            assert_eq!((made, rest.next()), (new.clone(), None), "{old:?} {new:?} {kinds:?}");
            let common = longest_common(&old, &new);
            assert_eq!(kinds.iter().filter(|kind| **kind == ' ').count(), common, "{old:?} {new:?} {kinds:?}");
        }
    }

    fn longest_common(one: &[&str], other: &[&str]) -> usize {
        let mut row = vec![0; other.len() + 1];
        for line in one {
            let before = row.clone();
            for (index, candidate) in other.iter().enumerate() {
                row[index + 1] = if line == candidate { before[index] + 1 } else { row[index].max(before[index + 1]) };
            }
        }
        row[other.len()]
    }

    #[test]
    fn too_much_is_said_to_be_too_much() {
        let text = |name: &str| (0..2000).map(|line| format!("{name}{line}\n")).collect::<String>();
        assert_eq!(difference(&text("a"), &text("b")), None);
        assert!(difference(&text("a"), &(text("a") + "b")).is_some());
    }
}
