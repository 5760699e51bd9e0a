#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| btrpress_fuzz::image(data));
