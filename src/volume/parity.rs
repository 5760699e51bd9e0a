//! The arithmetic of RAID5 and RAID6.
//!
//! P is the exclusive or of a row's data; Q is the sum of `2^place * data` in the field of 256 elements with the
//! polynomial `x^8 + x^4 + x^3 + x^2 + 1`.

/// What the polynomial leaves of `x^8`.
const REMAINDER: u8 = 0x1d;

/// Powers of 2 in the field, twice over so that sums of two logarithms can be looked up.
const POWERS: [u8; 510] = {
    let mut powers = [0; 510];
    let mut value = 1_u8;
    let mut at = 0;
    while at < powers.len() {
        powers[at] = value;
        value = double(value);
        at = at.wrapping_add(1);
    }
    powers
};

/// Logarithms to base 2; that of 0, which has none, is 0.
const LOGARITHMS: [u8; 256] = {
    let mut logarithms = [0; 256];
    let mut at = 0_u8;
    while at < 255 {
        logarithms[POWERS[at as usize] as usize] = at;
        at = at.wrapping_add(1);
    }
    logarithms
};

const fn double(value: u8) -> u8 {
    let carry = if value & 0x80 == 0 { 0 } else { REMAINDER };
    (value << 1) ^ carry
}

/// `2^exponent`.
fn power(exponent: usize) -> u8 {
    POWERS[exponent % 255]
}

fn multiply(one: u8, two: u8) -> u8 {
    if one == 0 || two == 0 {
        return 0;
    }
    let sum = usize::from(LOGARITHMS[usize::from(one)])
        .wrapping_add(usize::from(LOGARITHMS[usize::from(two)]));
    POWERS[sum]
}

/// The inverse of a value that isn't 0.
fn inverse(value: u8) -> u8 {
    POWERS[255_usize.wrapping_sub(usize::from(LOGARITHMS[usize::from(value)]))]
}

/// Products of one factor with every byte.
fn table(factor: u8) -> [u8; 256] {
    let mut table = [0; 256];
    for (byte, product) in (0..=u8::MAX).zip(&mut table) {
        *product = multiply(factor, byte);
    }
    table
}

/// `into += from`.
pub(super) fn add(into: &mut [u8], from: &[u8]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into ^= from;
    }
}

/// `into += 2^place * from`: what the data at a place of the row adds to Q.
pub(super) fn add_to_q(into: &mut [u8], from: &[u8], place: usize) {
    if place == 0 {
        return add(into, from);
    }
    let products = table(power(place));
    for (into, from) in into.iter_mut().zip(from) {
        *into ^= products[usize::from(*from)];
    }
}

/// Data at `place` from `q`, which holds Q and what all other places add to it.
pub(super) fn from_q(q: &mut [u8], place: usize) {
    let products = table(inverse(power(place)));
    for byte in q {
        *byte = products[usize::from(*byte)];
    }
}

/// Data at `place` from `p` and `q`, which hold P and Q and what all places but this and `other` add to them. The
/// answer replaces `p`.
pub(super) fn from_p_and_q(p: &mut [u8], q: &[u8], place: usize, other: usize) {
    // p = a + b and q = g^place a + g^other b, so a = (q + g^other p) / (g^place + g^other).
    let by_other = table(power(other));
    let by_sum = table(inverse(power(place) ^ power(other)));
    for (p, q) in p.iter_mut().zip(q) {
        *p = by_sum[usize::from(q ^ by_other[usize::from(*p)])];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_that_of_the_kernel() {
        // 2^8 is the rest of the polynomial, and 2 has an inverse there.
        assert_eq!(power(8), 0x1d);
        assert_eq!(multiply(0x80, 2), 0x1d);
        assert_eq!(inverse(2), 0x8e);
        for value in 1..=u8::MAX {
            assert_eq!(multiply(value, inverse(value)), 1);
        }
    }

    #[test]
    fn q_weighs_by_place() {
        let mut q = [0; 2];
        for (place, data) in [[1, 0x80], [1, 0x80], [2, 0xff]].iter().enumerate() {
            add_to_q(&mut q, data, place);
        }
        // 1 + 2 + 4*2 and 0x80 + 2*0x80 + 4*0xff, worked out by hand.
        assert_eq!(q, [0x0b, 0x80 ^ 0x1d ^ 0xdb]);
    }
}
