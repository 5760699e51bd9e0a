//! Limits of a run as they are typed.

use std::time::Duration;

/// Seconds, or a number with one of the units `s`, `m`, `h` and `d`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];
    let seconds = number(text, &units).ok_or("give seconds, or a number with s, m, h or d")?;
    Ok(Duration::from_secs(seconds))
}

/// Bytes, or a number with one of the units `K`, `M`, `G` and `T`, which are powers of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let units = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];
    let bytes = number(&text.to_uppercase(), &units);
    bytes.ok_or_else(|| "give bytes, or a number with K, M, G or T".to_owned())
}

fn number(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let known = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit)));
    let (digits, unit) = known.unwrap_or((text, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_multiply() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("3k"), Ok(3 << 10));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for wrong in ["", "0", "m", "-1s", "1.5h", "10x", "99999999999999999999"] {
            duration(wrong).unwrap_err();
            bytes(wrong).unwrap_err();
        }
        bytes("99999999T").unwrap_err();
    }
}
