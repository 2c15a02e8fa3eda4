//! Where libtorch lies, for the targets to start and for the trainer's own look.

fn main() {
    let lib = std::env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    println!("cargo::rustc-env=FOREBAY_LIBTORCH={lib}");
}
