//! Figures as a reader wants them in a sentence.

/// `12,345`, `123.4`, `0.0123`: three or four digits that matter, thousands apart.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size >= 1000.0 || value.fract() == 0.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{fraction}") }
}

/// `12.3 %` of a share of 1.
pub(crate) fn percent(share: f64) -> String {
    // A sum of nothing is -0.
    let percent = share * 100.0 + 0.0;
    let digits = match percent.abs() {
        size if size >= 10.0 || size == 0.0 => 0,
        size if size >= 1.0 => 1,
        size if size >= 0.01 => 2,
        _ => 4,
    };
    format!("{percent:.digits$} %")
}

/// `0.98 ms`, `45.0 us`, `1.2 s`.
pub(crate) fn time(ms: f64) -> String {
    match ms.abs() {
        size if size >= 10_000.0 => format!("{:.1} s", ms / 1e3),
        size if size >= 1_000.0 => format!("{:.2} s", ms / 1e3),
        size if size >= 100.0 => format!("{ms:.0} ms"),
        size if size >= 10.0 => format!("{ms:.1} ms"),
        size if size >= 0.1 => format!("{ms:.2} ms"),
        0.0 => "0 ms".to_owned(),
        _ => format!("{:.1} us", ms * 1e3),
    }
}

/// `512 KiB`, `12.3 MiB`.
pub(crate) fn size(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    match bytes.abs() {
        size if size >= KIB * KIB * KIB => format!("{:.2} GiB", bytes / KIB / KIB / KIB),
        size if size >= 100.0 * KIB * KIB => format!("{:.0} MiB", bytes / KIB / KIB),
        size if size >= KIB * KIB => format!("{:.1} MiB", bytes / KIB / KIB),
        size if size >= KIB => format!("{:.0} KiB", bytes / KIB),
        _ => format!("{bytes:.0} B"),
    }
}
