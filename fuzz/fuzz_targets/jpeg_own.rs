#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| { forebay_fuzz::bodies::jpeg_own::run(bytes); });
