//! Names, sizes, shares and times as text that does no harm and whose width is known.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use humansize::{BINARY, FormatSizeOptions, format_size};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Combining marks that one character may carry; more are written as escapes.
const MARKS_MAX: usize = 3;

/// A name as found on disk, for the screen: what isn't text, would move the cursor, or has no
/// width of its own is written as an escape.
pub fn name(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    let mut marks = MARKS_MAX;
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                // Asks for another form of the character before it; terminals disagree on widths.
                '\u{fe0e}' | '\u{fe0f}' => continue,
                '\\' => shown.push_str("\\\\"),
                '\n' => shown.push_str("\\n"),
                '\t' => shown.push_str("\\t"),
                '\r' => shown.push_str("\\r"),
                _ if is_format(char) => escape(&mut shown, char),
                _ => match char.width() {
                    Some(0) if marks >= MARKS_MAX => escape(&mut shown, char),
                    Some(0) => {
                        marks += 1;
                        shown.push(char);
                        continue;
                    }
                    Some(_) => {
                        marks = 0;
                        shown.push(char);
                        continue;
                    }
                    None => escape(&mut shown, char),
                },
            }
            marks = MARKS_MAX;
        }
        for byte in chunk.invalid() {
            write!(shown, "\\x{byte:02x}").expect("a string takes all");
            marks = MARKS_MAX;
        }
    }
    shown
}

fn escape(shown: &mut String, char: char) {
    let code = u32::from(char);
    if code < 0x100 {
        write!(shown, "\\x{code:02x}").expect("a string takes all");
    } else {
        write!(shown, "\\u{{{code:x}}}").expect("a string takes all");
    }
}

/// Characters that are not seen but change what is seen: order of writing, joiners, tags.
const fn is_format(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Columns that `text` takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most `columns` columns; what is too much is left out of its middle.
pub fn clip<'a>(text: &'a str, columns: usize, ellipsis: &str) -> Cow<'a, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(ellipsis.width()) else { return Cow::Borrowed("") };
    let tail_room = room / 3;
    let head = prefix(text, room - tail_room);
    let mut tail_start = text.len();
    let mut used = 0;
    for (at, char) in text.char_indices().rev() {
        let columns = char.width().unwrap_or(0);
        if used + columns > tail_room || at < head.len() {
            break;
        }
        used += columns;
        // A combining mark stays with the character before it.
        if columns > 0 {
            tail_start = at;
        }
    }
    Cow::Owned([head, ellipsis, &text[tail_start..]].concat())
}

/// The longest beginning of `text` that takes at most `columns` columns.
pub fn prefix(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, char) in text.char_indices() {
        used += char.width().unwrap_or(0);
        if used > columns {
            return &text[..at];
        }
    }
    text
}

/// A size in binary units, never wider than 10 columns: `1023.9 MiB`.
pub fn size(bytes: u64) -> String {
    let decimals = usize::from(bytes >= 1024);
    let options = FormatSizeOptions::from(BINARY);
    format_size(bytes, options.decimal_places(decimals).decimal_zeroes(decimals))
}

/// A size in binary units, never wider than 8 columns: `149 MiB`.
pub fn brief_size(bytes: u64) -> String {
    let text = size(bytes);
    match text.split_once('.') {
        Some((whole, rest)) if whole.len() > 2 => [whole, &rest[1..]].concat(),
        _ => text,
    }
}

/// `part` of `whole` in percent, at most 5 columns wide; a dash where there is no whole.
pub fn percent(part: u64, whole: u64, dash: &str) -> String {
    if whole == 0 {
        return dash.to_owned();
    }
    let percent = (u128::from(part) * 100 + u128::from(whole) / 2) / u128::from(whole);
    if percent > 9999 { ">999%".to_owned() } else { format!("{percent}%") }
}

/// A number, never wider than 7 columns: `123,456`, `12.3 M`.
pub fn count(number: u64) -> String {
    let scaled = |unit: f64, sign: char| format!("{:.1} {sign}", number as f64 / unit);
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => format!("{},{:03}", number / 1000, number % 1000),
        1_000_000..1_000_000_000 => scaled(1e6, 'M'),
        1_000_000_000..1_000_000_000_000 => scaled(1e9, 'G'),
        _ => scaled(1e12, 'T'),
    }
}

/// A number of things: `1 extent`, `2 extents`.
pub fn plural(number: u64, thing: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {thing}{end}", count(number))
}

/// A time to be waited: `42 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        // What takes any time at all takes a second.
        0..60 => format!("{} s", time.as_secs_f64().ceil()),
        60..3600 => format!("{minutes} min {:02} s", seconds % 60),
        3600..86_400 => format!("{hours} h {:02} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Seconds since the epoch as a date and a time of day, in UTC.
pub fn date(seconds: i64) -> String {
    let (day, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days are counted from 0000-03-01, so that a leap day is a year's last: Hinnant's
    // `civil_from_days`, over eras of 400 years.
    let day = day + 719_468;
    let (era, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second / 3600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_shown_harmlessly() {
        assert_eq!(name("Übersicht 年度 🍲".as_bytes()), "Übersicht 年度 🍲");
        assert_eq!(name(b"\x1b[31mred\x07"), "\\x1b[31mred\\x07");
        assert_eq!(name(b"a\nb\\c"), "a\\nb\\\\c");
        assert_eq!(name(b"ok \xff\xfe end"), "ok \\xff\\xfe end");
        assert_eq!(name("txt.\u{202e}exe".as_bytes()), "txt.\\u{202e}exe");
        assert_eq!(name("\u{9b}31m".as_bytes()), "\\x9b31m");
        assert_eq!(name("❤\u{fe0f}".as_bytes()), "❤");
        assert_eq!(name("e\u{301}".as_bytes()), "e\u{301}");
        assert_eq!(name("\u{301}".as_bytes()), "\\u{301}");
        let zalgo = ["z", &"\u{301}".repeat(40)].concat();
        assert!(name(zalgo.as_bytes()).starts_with("z\u{301}\u{301}\u{301}\\u{301}"));
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(clip("short", 5, "…"), "short");
        assert_eq!(clip("a very long name.txt", 12, "…"), "a very l…txt");
        assert_eq!(clip("年度报告年度报告", 9, "…"), "年度报…告");
        assert_eq!(clip("年度报告", 1, "…"), "…");
        assert_eq!(clip("年度报告", 0, "…"), "");
        for columns in 0..30 {
            assert!(
                width(&clip("mixed 年度 e\u{301}\u{301}e\u{301} 🍲🍲 end", columns, "…"))
                    <= columns
            );
        }
    }

    #[test]
    fn numbers_keep_to_their_columns() {
        assert_eq!([size(0), size(1023), size(1024)], ["0 B", "1023 B", "1.0 KiB"]);
        assert_eq!([brief_size(46_242_202), brief_size(149 << 20)], ["44.1 MiB", "149 MiB"]);
        assert_eq!(size(46_242_202), "44.1 MiB");
        for power in 0..64 {
            for bytes in [(1 << power) - 1, 1 << power, u64::MAX >> (63 - power)] {
                assert!(width(&size(bytes)) <= 10, "{}", size(bytes));
                assert!(width(&count(bytes)) <= 7 || bytes > 1 << 49, "{}", count(bytes));
            }
        }
        assert_eq!(percent(1, 3, "-"), "33%");
        assert_eq!(percent(u64::MAX, 1, "-"), ">999%");
        assert_eq!(percent(0, 0, "-"), "-");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59");
        assert_eq!(date(-1), "1969-12-31 23:59");
        assert_eq!(duration(Duration::from_secs(7265)), "2 h 01 min");
    }
}
