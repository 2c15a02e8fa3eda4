//! Compiles the libjpeg shim against the headers of the libjpeg-turbo that turbojpeg-sys built.

/// `DEP_TURBOJPEG_INCLUDE` is that crate's build metadata: its include folders, comma separated.
pub(crate) fn build() {
    println!("cargo::rerun-if-changed=src/decoder/turbo.c");
    println!("cargo::rerun-if-env-changed=DEP_TURBOJPEG_INCLUDE");
    let include = std::env::var("DEP_TURBOJPEG_INCLUDE").expect(
        "turbojpeg-sys did not say where its headers are; build it from source (feature \"cmake\")",
    );
    println!("cargo::rustc-env=FOREBAY_LIBJPEG_TURBO={}", version(&include));
    cc::Build::new()
        .file("src/decoder/turbo.c")
        .includes(include.split(','))
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .compile("forebay_turbo");
}

/// The library's version as its headers give it, for `forebay doctor`.
fn version(include: &str) -> String {
    let headers = include.split(',').map(|folder| std::path::Path::new(folder).join("jconfig.h"));
    let text: String = headers.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    let version = text.lines().find_map(|line| line.strip_prefix("#define LIBJPEG_TURBO_VERSION "));
    version.map_or("of unknown version", str::trim).to_string()
}
