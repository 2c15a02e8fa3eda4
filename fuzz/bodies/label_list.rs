//! Label lists, with the names of classes beside them.

use super::{folder, refusal};
use forebay::reader::Reader;
use forebay::reader::file_list::FileList;
use forebay::{Error, ErrorKind};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// What follows it is `classes.txt`; without it there is no such file.
pub const CUT: &[u8] = b"\n=classes=\n";

const INSIDE: &str = "inside of the data directory";
const OUTSIDE: &str = "outside of the data directory";

thread_local! {
    static TREE: Tree = Tree::new();
}

/// A data directory, and what must stay out of reach beside it.
struct Tree {
    _folder: TempDir,
    data: PathBuf,
}

impl Tree {
    fn new() -> Tree {
        let folder = folder();
        let data = folder.path().join("data");
        fs::create_dir_all(data.join("sub")).unwrap();
        fs::write(folder.path().join("secret"), OUTSIDE).unwrap();
        for name in ["a.jpg", "sub/b.jpg"] {
            fs::write(data.join(name), INSIDE).unwrap();
        }
        for (to, name) in [("../secret", "out"), ("..", "up"), ("sub/b.jpg", "link"), ("l", "l")] {
            std::os::unix::fs::symlink(to, data.join(name)).unwrap();
        }
        Tree { _folder: folder, data }
    }
}

/// A list, or errors that name its lines; each sample is what its line says; none is outside.
pub fn run(bytes: &[u8]) -> String {
    let cut = bytes.windows(CUT.len()).position(|window| window == CUT);
    let (list, classes) = match cut {
        Some(at) => (&bytes[..at], Some(&bytes[at + CUT.len()..])),
        None => (bytes, None),
    };
    TREE.with(|tree| {
        fs::write(tree.data.join("labels.txt"), list).unwrap();
        let names = tree.data.join("classes.txt");
        match classes {
            Some(classes) => fs::write(&names, classes).unwrap(),
            None => drop(fs::remove_file(&names)),
        }
        match FileList::open_with_faults(&tree.data, "labels.txt", false, usize::MAX) {
            Ok((read, faults)) => {
                let opened = FileList::open(&tree.data, "labels.txt", false);
                assert_eq!(opened.is_ok(), faults.is_empty());
                check(list, &read, &faults)
            }
            Err(error) => refusal(&error),
        }
    })
}

fn check(text: &[u8], list: &FileList, faults: &[Error]) -> String {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let mut before = 0;
    for id in 0..list.len() {
        let place = list.place(id);
        let name = place.as_os_str().as_bytes();
        let error = list.locate(id, Error::new(ErrorKind::Data, "x"));
        refusal(&error);
        let number = error.line().expect("a sample has a line") as usize;
        assert!(number > before, "lines are in order");
        before = number;
        let rest = lines[number - 1].strip_prefix(name).expect("a line begins with its name");
        assert!(rest[0].is_ascii_whitespace());
        let label = std::str::from_utf8(rest.trim_ascii()).unwrap();
        assert_eq!(label.parse(), Ok(list.label(id)));
        assert!(!name.is_empty() && !name.contains(&0) && name[0] != b'/');
        assert!(name.split(|&byte| byte == b'/').all(|part| part != b".."));
    }
    // No line is lost: it is blank, a sample, or wrong.
    let written = lines.iter().filter(|line| !line.trim_ascii().is_empty()).count();
    let named = list.classes().len() as i64;
    let unnamed = (0..list.len()).filter(|id| named > 0 && list.label(*id) >= named).count();
    assert_eq!(written + unnamed, list.len() as usize + faults.len());
    let faults: Vec<String> = faults.iter().map(refusal).collect();
    for id in 0..list.len().min(3) {
        let mut read = Vec::new();
        match list.read(id, &mut read) {
            // What it holds may be the list itself.
            Ok(_) => assert_ne!(read, OUTSIDE.as_bytes(), "read from outside of the directory"),
            Err(error) => drop(refusal(&error)),
        }
    }
    format!("{} of {named}; {}", list.len().min(3), faults.first().map_or("", String::as_str))
}
