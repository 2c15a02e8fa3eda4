//! Compiles the libjpeg shim against the headers of the libjpeg-turbo that turbojpeg-sys built.

/// `DEP_TURBOJPEG_INCLUDE` is that crate's build metadata: its include folders, comma separated.
pub(crate) fn build() {
    println!("cargo::rerun-if-changed=src/decoder/turbo.c");
    println!("cargo::rerun-if-env-changed=DEP_TURBOJPEG_INCLUDE");
    let include = std::env::var("DEP_TURBOJPEG_INCLUDE").expect(
        "turbojpeg-sys did not say where its headers are; build it from source (feature \"cmake\")",
    );
    cc::Build::new()
        .file("src/decoder/turbo.c")
        .includes(include.split(','))
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("forebay_turbo");
}
