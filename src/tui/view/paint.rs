//! Drawing into a buffer: clipped text, bars, columns that fit.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::text;
use crate::tui::theme::{Look, Palette};

/// A buffer that is drawn into with a certain look.
pub(super) struct Paint<'a> {
    pub(super) buf: &'a mut Buffer,
    pub(super) look: Look,
}

/// A piece of text with a style.
pub(super) type Span<'a> = (&'a str, Style);

impl Paint<'_> {
    fn is_outside(&self, x: u16, y: u16) -> bool {
        let area = self.buf.area;
        x < area.x || y < area.y || x >= area.right() || y >= area.bottom()
    }

    /// Text from `x` on in at most `width` columns, of which what is too much is left out at the
    /// end; tells how many it took.
    pub(super) fn text(&mut self, x: u16, y: u16, width: u16, (text, style): Span<'_>) -> u16 {
        if self.is_outside(x, y) {
            return 0;
        }
        let width = usize::from(width);
        let (mut end, _) = self.buf.set_stringn(x, y, text, width, style);
        if width > 0 && text::width(text) > width {
            let room = width - 1;
            let kept = text::width(text::prefix(text, room)) as u16;
            (end, _) = self.buf.set_stringn(x + kept, y, self.look.ellipsis(), 1, style);
        }
        end - x
    }

    /// Text that ends at the end of `width` columns from `x` on.
    pub(super) fn right(&mut self, x: u16, y: u16, width: u16, (text, style): Span<'_>) {
        let indent = width.saturating_sub(text::width(text) as u16);
        self.text(x + indent, y, width - indent, (text, style));
    }

    /// Pieces of text one after the other, as far as they fit.
    pub(super) fn spans(&mut self, x: u16, y: u16, width: u16, spans: &[Span<'_>]) -> u16 {
        let mut used = 0;
        for &span in spans {
            if used >= width {
                break;
            }
            used += self.text(x + used, y, width - used, span);
        }
        used
    }

    /// A thin line across with a title in it.
    pub(super) fn heading(&mut self, area: Rect, title: &str) {
        let used = self.text(area.x, area.y, area.width, (title, self.look.strong()));
        let rest = area.width.saturating_sub(used + 1);
        let line = self.look.sign("─", "-").repeat(rest.into());
        self.text(area.x + used + 1, area.y, rest, (&line, self.look.quiet()));
    }

    /// Lays a style over what is there.
    pub(super) fn overlay(&mut self, area: Rect, style: Style) {
        self.buf.set_style(area, style);
    }

    /// A bar whose length is `part` of `whole`, to an eighth of a column.
    pub(super) fn bar(&mut self, area: Rect, part: u64, whole: u64, style: Style) {
        self.stacked(area, &[(part, style)], whole);
    }

    /// A bar of several parts. Without colours each part is filled in its own way; with them,
    /// borders between parts are true to an eighth of a column.
    pub(super) fn stacked(&mut self, area: Rect, parts: &[(u64, Style)], whole: u64) {
        if whole == 0 || area.width == 0 {
            return;
        }
        let steps = self.look.parts();
        let scale = steps.len() as u64 + 1;
        let length = u64::from(area.width) * scale;
        let is_plain = self.look.palette == Palette::Plain || steps.is_empty();
        let mut sum: u64 = 0;
        let mut ends = Vec::with_capacity(parts.len());
        for &(part, style) in parts {
            sum = sum.saturating_add(part);
            let end =
                (u128::from(sum) * u128::from(length) + u128::from(whole) / 2) / u128::from(whole);
            let mut end = (end as u64).min(length);
            // What exists is seen, however little it is.
            let before = ends.last().map_or(0, |&(end, _)| end);
            if part > 0 && end == before {
                end = (before + 1).min(length);
            }
            ends.push((end, style));
        }
        let x_of = |column: u64| area.x + column as u16;
        let mut start = 0;
        for (rank, &(end, style)) in ends.iter().enumerate() {
            if is_plain && parts.len() > 1 {
                let round = |at: u64| (at + scale / 2) / scale;
                for column in round(start)..round(end) {
                    self.text(x_of(column), area.y, 1, (self.look.fill(rank), style));
                }
            } else {
                self.fill(area, start, end, style);
            }
            start = end;
        }
    }

    /// Fills from step `start` to step `end` of a line. A border inside of a column is drawn as a
    /// part of a cell over the colour of what comes after it.
    fn fill(&mut self, area: Rect, start: u64, end: u64, style: Style) {
        if end <= start {
            return;
        }
        let steps = self.look.parts();
        let scale = steps.len() as u64 + 1;
        let x_of = |column: u64| area.x + column as u16;
        let mut column = start / scale;
        if !start.is_multiple_of(scale) {
            let cell = self.buf.cell_mut((x_of(column), area.y));
            if let (Some(cell), Some(color)) = (cell, style.fg) {
                cell.set_bg(color);
            }
            column += 1;
        }
        while (column + 1) * scale <= end {
            self.text(x_of(column), area.y, 1, (self.look.fill(0), style));
            column += 1;
        }
        let rest = end.saturating_sub(column * scale);
        if rest > 0 {
            self.text(x_of(column), area.y, 1, (steps[rest as usize - 1], style));
        }
    }

    /// Fills a line's columns `from..to` with the sign of an empty bar.
    pub(super) fn track(&mut self, area: Rect) {
        let track = self.look.sign("░", ".").repeat(area.width.into());
        self.text(area.x, area.y, area.width, (&track, self.look.quiet()));
    }
}

/// A column of a table that may be left out when there is no room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<C> {
    pub(super) column: C,
    pub(super) width: u16,
    /// The smaller, the sooner it gets its place.
    pub(super) rank: u16,
}

/// A column that has found its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed<C> {
    pub(super) column: C,
    pub(super) x: u16,
    pub(super) width: u16,
}

/// Places as many columns as fit at the right of an area; the rest, at least `flexible` columns
/// wide, is left of them. Tells its width and the columns in the order in which they were given.
pub(super) fn fit<C: Copy>(
    area: Rect,
    flexible: u16,
    wanted: &[Wanted<C>],
) -> (u16, Vec<Placed<C>>) {
    let mut by_rank: Vec<usize> = (0..wanted.len()).collect();
    by_rank.sort_by_key(|&index| wanted[index].rank);
    let mut room = area.width.saturating_sub(flexible);
    let mut is_in = vec![false; wanted.len()];
    for index in by_rank {
        let width = wanted[index].width + 1;
        if width > room {
            break;
        }
        room -= width;
        is_in[index] = true;
    }
    let used: u16 =
        wanted.iter().zip(&is_in).filter(|(_, is_in)| **is_in).map(|(w, _)| w.width + 1).sum();
    let rest = area.width.saturating_sub(used);
    let mut x = area.x + rest;
    let mut placed = Vec::new();
    for (wanted, _) in wanted.iter().zip(is_in).filter(|(_, is_in)| *is_in) {
        placed.push(Placed { column: wanted.column, x: x + 1, width: wanted.width });
        x += wanted.width + 1;
    }
    (rest, placed)
}

/// The first `lines` of an area, and what is below them.
pub(super) fn split(area: Rect, lines: u16) -> (Rect, Rect) {
    let lines = lines.min(area.height);
    let above = Rect { height: lines, ..area };
    let below = Rect { y: area.y + lines, height: area.height - lines, ..area };
    (above, below)
}

/// One line of an area; it has no height if the area has no such line.
pub(super) fn line(area: Rect, index: u16) -> Rect {
    let height = u16::from(index < area.height);
    Rect { y: area.y + index.min(area.height), height, ..area }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Color;

    use super::*;
    use crate::tui::theme::Signs;

    const WHOLE: Rect = Rect::new(0, 0, 8, 1);

    fn bar(palette: Palette, signs: Signs, parts: &[(u64, Style)], whole: u64) -> Buffer {
        let mut buf = Buffer::empty(WHOLE);
        Paint { buf: &mut buf, look: Look { palette, signs } }.stacked(WHOLE, parts, whole);
        buf
    }

    fn text(buf: &Buffer) -> String {
        buf.content.iter().map(ratatui::buffer::Cell::symbol).collect()
    }

    #[test]
    fn parts_of_a_bar_meet_inside_of_a_cell() {
        let (red, blue) = (Style::new().fg(Color::Red), Style::new().fg(Color::Blue));
        let green = Style::new().fg(Color::Green);
        let buf = bar(Palette::Rich, Signs::Unicode, &[(20, red), (0, green), (24, blue)], 64);
        assert_eq!(text(&buf), "██▌██▌  ");
        let colours: Vec<(Color, Color)> =
            buf.content.iter().map(|cell| (cell.fg, cell.bg)).collect();
        assert_eq!(
            colours[1..4],
            [(Color::Red, Color::Reset), (Color::Red, Color::Blue), (Color::Blue, Color::Reset)]
        );
        assert_eq!(colours[5], (Color::Blue, Color::Reset), "a part of nothing leaves no colour");
    }

    #[test]
    fn without_colours_parts_differ_by_their_fill() {
        let parts = [(32, Style::new()), (16, Style::new())];
        assert_eq!(text(&bar(Palette::Plain, Signs::Unicode, &parts, 64)), "████▓▓  ");
        assert_eq!(text(&bar(Palette::Rich, Signs::Ascii, &parts, 64)), "####==  ");
        assert_eq!(text(&bar(Palette::Plain, Signs::Unicode, &parts[..1], 60)), "████▎   ");
    }

    #[test]
    fn what_exists_is_seen_and_a_bar_has_an_end() {
        let style = Style::new().fg(Color::Red);
        let of = |part, whole| text(&bar(Palette::Rich, Signs::Unicode, &[(part, style)], whole));
        assert_eq!(of(1, u64::MAX), "▏       ");
        assert_eq!(of(u64::MAX, 1), "████████");
        assert_eq!(of(0, 100), "        ");
        assert_eq!(of(5, 0), "        ");
    }

    #[test]
    fn columns_get_their_place_by_rank_and_keep_their_order() {
        let wanted = |column, width, rank| Wanted { column, width, rank };
        let all = [wanted('a', 10, 2), wanted('b', 5, 0), wanted('c', 8, 1)];
        let names = |width: u16| {
            let (rest, placed) = fit(Rect::new(2, 0, width, 1), 20, &all);
            (rest, placed.iter().map(|placed| placed.column).collect::<String>())
        };
        assert_eq!(names(60), (34, "abc".to_owned()));
        assert_eq!(names(40), (25, "bc".to_owned()));
        assert_eq!(names(26), (20, "b".to_owned()));
        assert_eq!(names(10), (10, String::new()));
    }
}
