//! What a data set of class folders is told about. Shared by both programs.

use forebay::graph::spec::{ReaderKind, Spec};
use forebay::loader::Loader;

/// Where `spec` reads folders: tells which label each got, since no list says so, and what is odd
/// about them.
pub(crate) fn report_folders(spec: &Spec, loader: &Loader) {
    if spec.reader.kind != ReaderKind::Folders {
        return;
    }
    let classes =
        loader.classes().iter().enumerate().map(|(label, name)| format!("{label} {name}"));
    eprintln!("forebay: classes: {}", classes.collect::<Vec<_>>().join(", "));
    for warning in loader.warnings() {
        eprintln!("forebay: note: {warning}");
    }
}
