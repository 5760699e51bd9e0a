//! Codecs: what is written can be read, by us and by others, and nothing makes a reader panic.

use btrpress::compress::{
    Algorithm, COMPRESSED_MAX, Codec, DecodeError, Decoder, Encoder, decode, decode_inline,
};
use proptest::prelude::*;

const SECTOR: usize = 4096;

fn codecs() -> impl Iterator<Item = Codec> {
    Algorithm::ALL
        .into_iter()
        .flat_map(|algorithm| algorithm.levels().map(move |level| Codec { algorithm, level }))
}

fn is_default(codec: Codec) -> bool {
    codec == codec.algorithm.into()
}

/// Bytes that look random and are the same on every run.
fn noise(len: usize, mut state: u64) -> Vec<u8> {
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Words in a random order: compresses as text does.
fn text(len: usize) -> Vec<u8> {
    let words =
        ["extent ", "leaf ", "of ", "the ", "tree ", "0x1f\n", "generation ", "-> ", "sum "];
    let picks = noise(len, 7);
    picks
        .iter()
        .flat_map(|pick| words[usize::from(*pick) % words.len()].bytes())
        .take(len)
        .collect()
}

/// Stretches of text, zeros and noise, none as long as a sector.
fn mixture(len: usize) -> Vec<u8> {
    let sources = [text(len), vec![0; len], noise(len, 3)];
    (0..len).map(|at| sources[at / 1500 % 3][at]).collect()
}

/// Contents of every kind and of lengths around the borders.
fn contents(sector_size: usize) -> Vec<Vec<u8>> {
    let lengths = [
        sector_size + 1,
        2 * sector_size - 1,
        2 * sector_size,
        (3 * sector_size + 17).min(COMPRESSED_MAX - 17),
        COMPRESSED_MAX - 1,
        COMPRESSED_MAX,
    ];
    let kinds = [text, |len| vec![0; len], mixture, |len| noise(len, 1)];
    lengths.into_iter().flat_map(|len| kinds.map(|kind| kind(len))).collect()
}

fn padded(data: &[u8], sector_size: usize) -> Vec<u8> {
    let mut padded = data.to_vec();
    padded.resize(data.len().next_multiple_of(sector_size), 0);
    padded
}

#[test]
fn every_level_gives_back_what_it_was_given() {
    let mut decoder = Decoder::default();
    for sector_size in [4096, 8192, 16384, 32768, 65536] {
        let contents = contents(sector_size);
        // Levels and sector sizes only meet in LZO's framing, which has a test of its own.
        for codec in codecs().filter(|codec| sector_size == SECTOR || is_default(*codec)) {
            let mut encoder = Encoder::new(codec, sector_size);
            for data in &contents {
                let Some(payload) = encoder.encode(data) else { continue };
                let whole = padded(data, sector_size);
                assert!(payload.len() + sector_size <= whole.len(), "{codec} saves a sector");
                assert_eq!(payload.len() % sector_size, 0, "{codec} fills sectors");
                let read = decoder.decode(codec.algorithm, &payload, whole.len(), sector_size);
                assert!(read.as_ref() == Ok(&whole), "{codec}, {} bytes", data.len());
            }
        }
    }
}

#[test]
fn what_can_be_compressed_is() {
    for codec in codecs() {
        let mut encoder = Encoder::new(codec, SECTOR);
        for data in [text(COMPRESSED_MAX), vec![0; COMPRESSED_MAX], mixture(COMPRESSED_MAX)] {
            assert!(encoder.encode(&data).is_some(), "{codec}");
        }
        assert_eq!(encoder.encode(&noise(COMPRESSED_MAX, 5)), None, "{codec}");
        assert_eq!(encoder.encode(&text(SECTOR)), None, "{codec} cannot save the only sector");
        assert_eq!(encoder.encode(&[7]), None, "{codec}");
        assert_eq!(encoder.encode(&vec![0; SECTOR + 1]).map(|payload| payload.len()), Some(SECTOR));
    }
}

#[test]
fn every_level_gives_back_what_it_was_given_inline() {
    let mut decoder = Decoder::default();
    for sector_size in [4096, 65536] {
        for codec in codecs() {
            let mut encoder = Encoder::new(codec, sector_size);
            for len in [500, 1000, 2048, 4093, 4095, 4096] {
                for data in [text(len), vec![0; len], mixture(len)] {
                    let payload =
                        encoder.encode_inline(&data).expect("all three repeat themselves");
                    assert!(payload.len() < data.len());
                    let read = decoder.decode_inline(codec.algorithm, &payload, len, sector_size);
                    assert!(read.as_ref() == Ok(&data), "{codec}, {len} bytes");
                }
            }
            assert_eq!(encoder.encode_inline(&noise(2000, 2)), None, "{codec}");
            assert_eq!(encoder.encode_inline(&[1]), None, "{codec}");
        }
    }
}

/// Threads share out the extents, so what an encoder did before must not show.
#[test]
fn a_used_encoder_writes_the_same_as_a_new_one() {
    let contents = [
        text(COMPRESSED_MAX),
        noise(20_000, 4),
        mixture(70_001),
        vec![0; COMPRESSED_MAX],
        mixture(9000),
    ];
    for codec in codecs() {
        let fresh: Vec<_> =
            contents.iter().map(|data| Encoder::new(codec, SECTOR).encode(data)).collect();
        let mut encoder = Encoder::new(codec, SECTOR);
        for round in 0..2 {
            for at in (0..contents.len()).map(|at| (at * 3 + round) % contents.len()) {
                assert!(encoder.encode(&contents[at]) == fresh[at], "{codec}, content {at}");
            }
        }
    }
}

/// Walks the framing by the kernel's rules, and lets another decoder have each segment.
#[test]
fn lzo_is_framed_as_the_kernel_demands() {
    let length_at = |payload: &[u8], at: usize| {
        u32::from_le_bytes(payload[at..at + 4].try_into().expect("four bytes")) as usize
    };
    for sector_size in [4096, 16384, 65536] {
        for level in Algorithm::Lzo.levels() {
            let codec = Codec { algorithm: Algorithm::Lzo, level };
            let mut encoder = Encoder::new(codec, sector_size);
            for data in contents(sector_size) {
                let Some(payload) = encoder.encode(&data) else { continue };
                let end = length_at(&payload, 0);
                assert_eq!(end.next_multiple_of(sector_size), payload.len());
                let (mut at, mut read) = (4, Vec::new());
                while at < end {
                    assert_eq!(at / sector_size, (at + 3) / sector_size, "a length crosses");
                    let segment = &payload[at + 4..][..length_at(&payload, at)];
                    assert_ne!(segment[0], 17, "looks like a version");
                    let mut sector = vec![0; sector_size];
                    let len =
                        lzokay::decompress::decompress(segment, &mut sector).expect("plain LZO1X");
                    read.extend_from_slice(&sector[..len]);
                    at += 4 + segment.len();
                    if sector_size - at % sector_size < 4 {
                        at = at.next_multiple_of(sector_size);
                    }
                }
                assert_eq!(at, end, "the length counts every segment and all padding between");
                assert!(read == data, "{codec}, {} bytes", data.len());
            }
        }
    }
}

#[test]
fn segments_of_another_encoder_are_read() {
    let data = mixture(3 * SECTOR + 100);
    let mut payload = vec![0; 4];
    for data in data.chunks(SECTOR) {
        let segment = lzokay::compress::compress(data).expect("lzokay takes any data");
        payload.extend_from_slice(&(segment.len() as u32).to_le_bytes());
        payload.extend_from_slice(&segment);
        assert!(SECTOR - payload.len() % SECTOR >= 4, "no padding needed here");
    }
    let length = (payload.len() as u32).to_le_bytes();
    payload[..4].copy_from_slice(&length);
    let read = decode(Algorithm::Lzo, &padded(&payload, SECTOR), 4 * SECTOR, SECTOR);
    assert!(read == Ok(padded(&data, SECTOR)));
}

/// Of the frame header, so that no level ever asks a kernel for a window it has no memory for.
#[test]
fn a_zstd_frame_has_its_size_and_no_window_of_its_own() {
    for level in Algorithm::Zstd.levels() {
        let mut encoder = Encoder::new(Codec { algorithm: Algorithm::Zstd, level }, SECTOR);
        for len in [1000, SECTOR] {
            let frame = encoder.encode_inline(&text(len)).expect("text gets smaller");
            assert_eq!(frame[..4], [0x28, 0xb5, 0x2f, 0xfd]);
            assert_eq!(
                frame[4] & 0b0011_1111,
                0b0010_0000,
                "single segment, no checksum or dictionary"
            );
        }
        for len in [2 * SECTOR, COMPRESSED_MAX] {
            let frame = encoder.encode(&text(len)).expect("text gets smaller");
            assert_eq!(
                frame[4] & 0b0011_1111,
                0b0010_0000,
                "single segment, no checksum or dictionary"
            );
        }
    }
}

/// What kernel 6.18 made, by `compress-force`, of 9000 bytes in an extent and of 1500 inline: the
/// line `a line` again and again. In hexadecimal, without the zeros up to the sector's end.
const KERNEL_MADE: [(Algorithm, &str, &str); 3] = [
    (
        Algorithm::Zlib,
        "785e4a54c8c9cc4be54a1ca546836034158c6684d1b260b4381cad11466bc3d1da70b4361cad0d476bc3d1da\
     70b4361cad0d876f6d08000000ffffecd6310d00000080a0feadede1c8e081da6aeb749c8ed3713a4e878634\
     a4210d6948431ad2f0af61000000ffff1a4de5a3a97c3495136ef301000000ffff0300bd3d0c69",
        "785e4a54c8c9cc4be54a1ca546836034158c6684d1b260f8148700000000ffff03004d6dd733",
    ),
    (
        Algorithm::Lzo,
        "870000002c0000000461206c696e650a20000000000000000000000000000000da18000a6c696e650a61206c\
     696e650a611100002c00000004206c696e650a6120000000000000000000000000000000da18000a696e650a\
     61206c696e650a61201100001f000000046c696e650a6120200000f518000a0a61206c696e650a61206c696e\
     11",
        "2e000000260000000461206c696e650a200000000000a818000e0a61206c696e650a61206c696e650a612011\
     0000",
    ),
    (
        Algorithm::Zstd,
        "28b52ffd6028227d00003861206c696e650a01001e437c3102",
        "28b52ffd60dc047500003861206c696e650a0100d2e92f46",
    ),
];

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).expect("hexadecimal") as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
}

#[test]
fn what_a_kernel_wrote_is_read() {
    let lines = b"a line\n".repeat(2000);
    for (algorithm, extent, inline) in KERNEL_MADE {
        let payload = padded(&bytes(extent), SECTOR);
        let read = decode(algorithm, &payload, 3 * SECTOR, SECTOR);
        assert!(read == Ok(padded(&lines[..9000], SECTOR)), "{algorithm}");
        let read = decode_inline(algorithm, &bytes(inline), 1500, SECTOR);
        assert_eq!(read.as_deref(), Ok(&lines[..1500]), "{algorithm}");
    }
}

/// Where damage shows only in zeros to a kernel, as in a cut zstd frame, it is an error here.
#[test]
fn streams_are_broken_where_the_kernel_says_so() {
    let data = text(9000);
    let whole = padded(&data, SECTOR);
    let stream = |algorithm: Algorithm| {
        let payload = Encoder::new(algorithm.into(), SECTOR).encode(&data).expect("text");
        let end = payload.iter().rposition(|byte| *byte != 0).expect("not all zeros") + 1;
        (payload, end)
    };
    let read = |algorithm, payload: &[u8]| decode(algorithm, payload, whole.len(), SECTOR);

    let (mut zlib, end) = stream(Algorithm::Zlib);
    zlib[end - 1] ^= 1;
    assert!(read(Algorithm::Zlib, &zlib).as_ref() == Ok(&whole), "the checksum is not looked at");
    assert_eq!(
        read(Algorithm::Zlib, &zlib[..end / 2]),
        Err(DecodeError::Truncated(Algorithm::Zlib))
    );
    assert_eq!(read(Algorithm::Zlib, &zlib[2..]), Err(DecodeError::Stream(Algorithm::Zlib)));
    assert_eq!(read(Algorithm::Zlib, &[0x78]), Err(DecodeError::Truncated(Algorithm::Zlib)));

    let (mut zstd, end) = stream(Algorithm::Zstd);
    let frame = zstd[..end].to_vec();
    zstd.splice(end..end, frame);
    assert!(read(Algorithm::Zstd, &zstd).as_ref() == Ok(&whole), "a second frame is not looked at");
    assert_eq!(
        read(Algorithm::Zstd, &zstd[..end / 2]),
        Err(DecodeError::Truncated(Algorithm::Zstd))
    );
    assert_eq!(read(Algorithm::Zstd, &zstd[1..]), Err(DecodeError::Stream(Algorithm::Zstd)));

    let (mut lzo, _) = stream(Algorithm::Lzo);
    let payload = lzo.len() + SECTOR;
    let found = usize::from(lzo[0]) | usize::from(lzo[1]) << 8;
    assert_eq!(
        read(Algorithm::Lzo, &padded(&lzo, payload)),
        Err(DecodeError::LzoLength { found, payload }),
        "a sector too many"
    );
    lzo[5] = 0x7f;
    assert!(matches!(read(Algorithm::Lzo, &lzo), Err(DecodeError::LzoSegment { at: 8, .. })));
    assert_eq!(read(Algorithm::Lzo, &[0; 3]), Err(DecodeError::Truncated(Algorithm::Lzo)));
}

#[test]
fn a_short_stream_ends_in_zeros_and_a_long_one_is_cut() {
    let data = text(3 * SECTOR + 600);
    for algorithm in Algorithm::ALL {
        let payload = Encoder::new(algorithm.into(), SECTOR).encode(&data).expect("text");
        let longer = decode(algorithm, &payload, 6 * SECTOR, SECTOR).expect("a whole stream");
        assert!(longer[..data.len()] == data && longer[data.len()..].iter().all(|byte| *byte == 0));
        for len in [0, 1, SECTOR - 1, SECTOR, 3 * SECTOR + 1] {
            let shorter = decode(algorithm, &payload, len, SECTOR).expect("a whole stream");
            assert!(shorter == data[..len], "{algorithm} cut at {len}");
        }
    }
}

#[test]
fn an_inline_stream_may_hold_more_but_not_less_than_claimed() {
    let data = text(1500);
    for algorithm in Algorithm::ALL {
        let payload = Encoder::new(algorithm.into(), SECTOR).encode_inline(&data).expect("text");
        assert_eq!(decode_inline(algorithm, &payload, 1000, SECTOR).as_deref(), Ok(&data[..1000]));
        assert_eq!(
            decode_inline(algorithm, &payload, 1501, SECTOR),
            Err(DecodeError::InlineShort { found: 1500, expected: 1501 })
        );
        assert_eq!(
            decode_inline(algorithm, &payload, SECTOR + 1, SECTOR),
            Err(DecodeError::RamBytes { found: SECTOR + 1, max: SECTOR })
        );
    }
}

#[test]
fn a_claim_beyond_the_format_is_refused_before_memory_is_taken() {
    for algorithm in Algorithm::ALL {
        let found = usize::MAX / 2;
        assert_eq!(
            decode(algorithm, &[0; SECTOR], found, SECTOR),
            Err(DecodeError::RamBytes { found, max: COMPRESSED_MAX })
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_data_survives(
        pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..400), 1_usize..60), 1..30),
        codec in prop::sample::select(codecs().collect::<Vec<_>>()),
    ) {
        let mut data = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect::<Vec<_>>();
        data.truncate(COMPRESSED_MAX);
        let mut encoder = Encoder::new(codec, SECTOR);
        if let Some(payload) = encoder.encode(&data) {
            let whole = padded(&data, SECTOR);
            prop_assert!(decode(codec.algorithm, &payload, whole.len(), SECTOR) == Ok(whole));
        }
        data.truncate(SECTOR);
        if let Some(payload) = encoder.encode_inline(&data) {
            prop_assert!(decode_inline(codec.algorithm, &payload, data.len(), SECTOR) == Ok(data));
        }
    }

    #[test]
    fn a_damaged_payload_is_an_error_or_other_data(
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()),
        len in 5000_usize..30_000,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in any::<prop::sample::Index>(),
        ram_bytes in 0..=COMPRESSED_MAX,
    ) {
        let data = mixture(len);
        let mut encoder = Encoder::new(algorithm.into(), SECTOR);
        for (mut payload, inline) in [
            (encoder.encode(&[data.as_slice(), &[0; 9000]].concat()).expect("zeros"), false),
            (encoder.encode_inline(&data[..2500]).expect("zeros"), true),
        ] {
            for (at, value) in &flips {
                *at.get_mut(&mut payload) = *value;
            }
            for payload in [&payload[..], &payload[..keep.index(payload.len())]] {
                let read = if inline {
                    decode_inline(algorithm, payload, ram_bytes % SECTOR, SECTOR)
                        .map(|data| data.len() == ram_bytes % SECTOR)
                } else {
                    decode(algorithm, payload, ram_bytes, SECTOR).map(|data| data.len() == ram_bytes)
                };
                prop_assert_ne!(read, Ok(false));
            }
        }
    }

    #[test]
    fn noise_is_an_error_or_data(
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()),
        payload in prop::collection::vec(any::<u8>(), 0..300),
        ram_bytes in 0..=SECTOR,
    ) {
        let mut decoder = Decoder::default();
        for payload in [payload.clone(), padded(&payload, SECTOR)] {
            if let Ok(data) = decoder.decode(algorithm, &payload, ram_bytes, SECTOR) {
                prop_assert_eq!(data.len(), ram_bytes);
            }
            if let Ok(data) = decoder.decode_inline(algorithm, &payload, ram_bytes, SECTOR) {
                prop_assert_eq!(data.len(), ram_bytes);
            }
        }
    }
}
