//! `build/fetch.py`, which `make train` downloads CIFAR-10 with, against a server of our own.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

const CONTENT: &str = "0123456789";
const SHA256: &str = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"; // of CONTENT

/// Serves CONTENT once per entry of `cuts` and closes after that many bytes of it; from the byte
/// that is asked for where `ranges`. Returns its address.
fn serve(cuts: &'static [usize], ranges: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/file", listener.local_addr().unwrap());
    thread::spawn(move || {
        for &cut in cuts {
            let (mut stream, _) = listener.accept().unwrap();
            let head: Vec<_> = BufReader::new(&stream)
                .lines()
                .map(Result::unwrap)
                .take_while(|line| !line.is_empty())
                .collect();
            let range = head.iter().find_map(|line| line.strip_prefix("Range: bytes="));
            let from = match range {
                Some(range) if ranges => range.trim_end_matches('-').parse().unwrap(),
                _ => 0,
            };
            let (status, body) = match from {
                0 => ("200 OK", CONTENT),
                10.. => ("416 Range Not Satisfiable", ""),
                from => ("206 Partial Content", &CONTENT[from..]),
            };
            let length = body.len();
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n").unwrap();
            stream.write_all(&body.as_bytes()[..cut.min(length)]).unwrap();
        }
    });
    address
}

fn fetch(url: &str, sha256: &str, file: &Path) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/build/fetch.py");
    Command::new("python3").args([script, url, sha256]).arg(file).output().unwrap()
}

#[test]
fn goes_on_where_it_broke_off() {
    for (part, cuts, ranges) in [
        ("", &[4, 3, 10][..], true), // the server closed early, twice
        ("", &[4, 10], false),       // and sends only whole files
        ("01234", &[10], true),      // an earlier run was stopped
        (CONTENT, &[0], true),       // after the last byte
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        if !part.is_empty() {
            fs::write(dir.path().join("file.part"), part).unwrap();
        }
        let output = fetch(&serve(cuts, ranges), SHA256, &file);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), CONTENT);
        assert!(!dir.path().join("file.part").exists());
    }
}

#[test]
fn says_why_it_failed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, reason) in [
        (format!("http://{closed}/file"), "Connection refused"),
        (serve(&[10], true), "has not the SHA-256"),
    ] {
        let output = fetch(&url, "0123", &file);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(reason), "{message}");
        assert!(!file.exists() && !dir.path().join("file.part").exists());
    }
}

#[test]
fn leaves_another_file_given_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "another").unwrap();
    assert!(!fetch("http://127.0.0.1:9/", SHA256, &file).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "another");
}
