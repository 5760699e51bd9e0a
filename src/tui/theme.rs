//! Colours and signs: the only place where either is named.

use ratatui::style::{Color, Modifier, Style};

use super::model::Method;

/// How things look in a certain terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Colours that may be used.
    pub palette: Palette,
    /// Signs that may be used.
    pub signs: Signs,
}

/// Colours of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// None: bold, dim and reversed text only.
    Plain,
    /// The sixteen that its user has chosen.
    Sixteen,
    /// The fixed part of 256 colours; all are readable on a dark and on a light background.
    Rich,
}

/// Signs of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// Every sign of Unicode.
    Unicode,
    /// Those that the Linux console has.
    Console,
    /// ASCII.
    Ascii,
}

impl Look {
    /// What suits a terminal, by the environment variables that `of` knows.
    pub fn of_environment(of: impl Fn(&str) -> Option<String>) -> Self {
        let of = |name: &str| of(name).filter(|value| !value.is_empty());
        let term = of("TERM").unwrap_or_default();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(&of).unwrap_or_default();
        let locale = locale.to_lowercase();
        let is_rich = of("COLORTERM").is_some() || term.contains("256") || term.contains("direct");
        Self {
            palette: match () {
                () if of("NO_COLOR").is_some() || term == "dumb" || term.contains("mono") => {
                    Palette::Plain
                }
                () if is_rich => Palette::Rich,
                () => Palette::Sixteen,
            },
            signs: match () {
                () if !locale.contains("utf-8") && !locale.contains("utf8") => Signs::Ascii,
                () if term == "linux" => Signs::Console,
                () => Signs::Unicode,
            },
        }
    }

    fn style(self, sixteen: Color, rich: u8) -> Style {
        match self.palette {
            Palette::Plain => Style::new(),
            Palette::Sixteen => Style::new().fg(sixteen),
            Palette::Rich => Style::new().fg(Color::Indexed(rich)),
        }
    }

    /// What stands back: headings, units, hints.
    pub fn quiet(self) -> Style {
        match self.palette {
            Palette::Plain => Style::new().add_modifier(Modifier::DIM),
            Palette::Sixteen => Style::new().fg(Color::DarkGray),
            Palette::Rich => Style::new().fg(Color::Indexed(245)),
        }
    }

    /// What stands out: titles, keys, directories.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The program's own colour: title, marks, progress.
    pub fn accent(self) -> Style {
        self.style(Color::LightBlue, 68)
    }

    /// Something went well or gets better.
    pub fn good(self) -> Style {
        self.style(Color::Green, 71)
    }

    /// Something wants attention.
    pub fn warning(self) -> Style {
        self.style(Color::Yellow, 172).add_modifier(Modifier::BOLD)
    }

    /// Something failed or gets worse.
    pub fn bad(self) -> Style {
        self.style(Color::Red, 167).add_modifier(Modifier::BOLD)
    }

    /// The row under the cursor; it is laid over the styles of the row.
    pub fn cursor(self) -> Style {
        match self.palette {
            Palette::Rich => Style::new().fg(Color::Indexed(255)).bg(Color::Indexed(238)),
            _ => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// The colour of a way to store data.
    pub fn method(self, method: Method) -> Style {
        match method {
            Method::Uncompressed => self.style(Color::Reset, 247),
            Method::Zlib => self.style(Color::Yellow, 172),
            Method::Lzo => self.style(Color::Cyan, 37),
            Method::Zstd => self.style(Color::LightBlue, 68),
            Method::Preallocated | Method::Unknown => self.style(Color::Magenta, 133),
        }
    }

    /// The colour of a part of the space.
    pub fn space(self, part: Part) -> Style {
        match part {
            Part::Data => self.style(Color::LightBlue, 68),
            Part::Metadata => self.style(Color::Magenta, 133),
            Part::Free => self.style(Color::Green, 71),
            Part::Unallocated => self.quiet(),
        }
    }

    /// What fills a bar's part of this rank, so that parts differ without colours.
    pub fn fill(self, rank: usize) -> &'static str {
        let fills = match self.signs {
            Signs::Ascii => ["#", "=", "+", "-", ":"],
            _ => ["█", "▓", "▒", "░", "·"],
        };
        fills[rank.min(fills.len() - 1)]
    }

    /// Parts of a cell, the smallest first; the whole is [`fill`](Self::fill) of rank 0.
    pub fn parts(self) -> &'static [&'static str] {
        match self.signs {
            Signs::Unicode => &["▏", "▎", "▍", "▌", "▋", "▊", "▉"],
            Signs::Console => &["▌"],
            Signs::Ascii => &[],
        }
    }

    /// Heights of a sparkline, the lowest first.
    pub fn heights(self) -> &'static [&'static str] {
        match self.signs {
            Signs::Unicode => &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
            Signs::Console => &["▄", "█"],
            Signs::Ascii => &["_", "-", "=", "#"],
        }
    }

    /// One of two texts, the second being ASCII.
    pub fn sign(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.signs == Signs::Ascii { ascii } else { unicode }
    }

    /// What stands for text that was left out.
    pub fn ellipsis(self) -> &'static str {
        self.sign("…", "~")
    }

    /// What stands for a number that does not exist or isn't known yet.
    pub fn dash(self) -> &'static str {
        self.sign("–", "-")
    }

    /// What stands between facts of one line.
    pub fn dot(self) -> &'static str {
        self.sign(" · ", " | ")
    }
}

/// A part of the filesystem's space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Used by file contents.
    Data,
    /// Used by trees.
    Metadata,
    /// Unused inside of block groups.
    Free,
    /// In no block group.
    Unallocated,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(variables: &[(&str, &str)]) -> (Palette, Signs) {
        let look = Look::of_environment(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        (look.palette, look.signs)
    }

    #[test]
    fn the_terminal_gets_what_it_can_show() {
        let utf8 = ("LANG", "de_DE.UTF-8");
        assert_eq!(look(&[("TERM", "xterm-256color"), utf8]), (Palette::Rich, Signs::Unicode));
        assert_eq!(look(&[("TERM", "xterm"), utf8]), (Palette::Sixteen, Signs::Unicode));
        assert_eq!(look(&[("TERM", "linux"), utf8]), (Palette::Sixteen, Signs::Console));
        assert_eq!(look(&[("TERM", "xterm"), ("LC_ALL", "C"), utf8]).1, Signs::Ascii);
        let plain = [("NO_COLOR", "1"), ("COLORTERM", "truecolor"), utf8];
        assert_eq!(look(&plain), (Palette::Plain, Signs::Unicode));
        assert_eq!(look(&[("NO_COLOR", ""), ("TERM", "xterm")]).0, Palette::Sixteen);
        assert_eq!(look(&[]), (Palette::Sixteen, Signs::Ascii));
    }
}
