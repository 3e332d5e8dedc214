//! The example: trained in parts it has the bits of one training, and answers many at once.
mod common;
#[path = "../examples/train_and_serve.rs"]
mod program;

use assay::*;
use common::Folder;
use program::{make_batch, run, serve, train, BATCH, CLASSES, SIDE};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

fn ask(address: SocketAddr, path: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "POST {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().to_string(), body.to_string())
}

#[test]
fn trains_stops_resumes_and_serves() {
    let context = Context::new(ContextOptions { threads: 1, ..Default::default() }).unwrap();
    let folder = Folder::new();
    let (whole, parts) = (folder.at("whole"), folder.at("parts"));
    train(&context, &whole, 40).unwrap();
    train(&context, &parts, 15).unwrap();
    let model = train(&context, &parts, 40).unwrap();
    let diff = diff_checkpoints(&whole, &parts).unwrap();
    assert_eq!(diff.json()["identical"], Json::Bool(true), "{}", diff.text());

    let predictor = Predictor::new(&model, "").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || serve(&context, &predictor, &listener)); // ends with the process
    let (pixels, labels) = make_batch(1000);
    let right: usize = thread::scope(|scope| {
        let ask_about = |n: usize| {
            let body = format!("{:?}", &pixels[n * SIDE * SIDE..(n + 1) * SIDE * SIDE]);
            let (status, answer) = ask(address, "/quarter", &body);
            assert_eq!(status, "200", "{answer}");
            let answer = Json::parse(&answer).unwrap();
            assert_eq!(answer.elements().len(), CLASSES);
            (answer[labels[n] as usize].number().unwrap() > 0.5) as usize
        };
        let asking: Vec<_> = (0..BATCH).map(|n| scope.spawn(move || ask_about(n))).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(right >= BATCH * 9 / 10, "{right} of {BATCH} right");
    assert_eq!(ask(address, "/quarter", "[1]").0, "400");
    assert_eq!(ask(address, "/quarter", "[1").0, "400");
    assert_eq!(ask(address, "/", "").0, "404");
}

#[test]
fn says_what_is_wrong() {
    let folder = Folder::new();
    assert!(run(&[]).is_err());
    assert!(run(&[folder.at("a"), "many".into()]).is_err());
    run(&[folder.at("a"), "1".into()]).unwrap();
    assert!(run(&[folder.at("a/b"), "1".into()]).is_err());
}
