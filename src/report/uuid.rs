//! UUIDs.

use std::fmt::Write;

/// A UUID in the usual form.
pub fn uuid(bytes: &[u8; 16]) -> String {
    bytes.iter().enumerate().fold(String::new(), |mut text, (index, byte)| {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn dashes_are_where_they_belong() {
        let bytes = std::array::from_fn(|index| index as u8);
        assert_eq!(super::uuid(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
