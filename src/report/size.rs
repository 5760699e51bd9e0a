//! Sizes as compsize writes them.

/// How sizes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Units {
    /// With a unit and two or three digits, rounded down.
    Human,
    /// In bytes.
    Bytes,
}

/// A size. Up to five digits come before the unit, or one and a decimal; what is cut off is not rounded.
pub fn size(bytes: u64, units: Units) -> String {
    const UNITS: [char; 7] = ['B', 'K', 'M', 'G', 'T', 'P', 'E'];
    if units == Units::Bytes {
        return bytes.to_string();
    }
    let (mut number, mut unit) = (bytes, 0);
    while number >= 10 << 10 {
        number >>= 10;
        unit += 1;
    }
    if number < 1 << 10 {
        return format!("{number:4}{}", UNITS[unit]);
    }
    format!(" {}.{}{}", number >> 10, number * 10 / 1024 % 10, UNITS[unit + 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_cut_off_as_compsize_does() {
        let cases = [
            (0, "   0B"),
            (1023, "1023B"),
            (1024, " 1.0K"),
            (1025, " 1.0K"),
            (2047, " 1.9K"),
            (10239, " 9.9K"),
            (10240, "  10K"),
            (1 << 20, " 1.0M"),
            (999 << 20, " 999M"),
            (1024 << 20, " 1.0G"),
            (u64::MAX, "  15E"),
        ];
        for (bytes, text) in cases {
            assert_eq!(size(bytes, Units::Human), text, "{bytes}");
        }
        assert_eq!(size(u64::MAX, Units::Bytes), "18446744073709551615");
    }
}
