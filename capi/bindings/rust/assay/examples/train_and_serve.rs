//! Trains a small convolutional network to tell bright spots by their place, goes on where it stopped
//! when it is started again, and serves it over HTTP.
//!
//!     train_and_serve CHECKPOINT STEPS [ADDRESS]
//!     curl -d "[$(seq -s, 256)]" ADDRESS/quarter
//!
//! In the folder of the crates: `cargo run --example train_and_serve -- a.ckpt 100 localhost:8080`, with
//! `--target-dir` where it cannot be written to.
use assay::*;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

pub const BATCH: usize = 32;
pub const SIDE: usize = 16;
pub const CLASSES: usize = 4;
const WORKERS: usize = 4;
const LONGEST_REQUEST: usize = 1 << 16;

/// Images of noise with a bright square in one quarter; the label says which. What step s learns from
/// depends on nothing but s.
pub fn make_batch(step: i64) -> (Vec<f32>, Vec<i32>) {
    let mut state = step as u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15); // splitmix64
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) >> 40
    };
    let (mut pixels, mut labels) = (vec![], vec![]);
    for _ in 0..BATCH {
        let label = random() as usize % CLASSES;
        labels.push(label as i32);
        for p in 0..SIDE * SIDE {
            let quarter = p / SIDE / (SIDE / 2) * 2 + p % SIDE / (SIDE / 2);
            let bright = if quarter == label { 0.7 } else { 0.0 };
            pixels.push(random() as f32 / (1 << 24) as f32 + bright);
        }
    }
    (pixels, labels)
}

/// Goes on from the checkpoint, if it is there, to this number of steps, and saves what was learned.
pub fn train(context: &Context, path: &str, steps: i64) -> Result<Model> {
    let config = r#"{"image": [16, 16, 1], "classes": 4, "conv": [8, 16]}"#;
    let mut model = Model::named(context, "cnn", config)?;
    let options = TrainerOptions {
        batch_size: BATCH as i64,
        learning_rate: 0.05,
        config: r#"{"optimizer": {"name": "sgd", "momentum": 0.9}}"#,
        ..Default::default()
    };
    let mut trainer = Trainer::new(&mut model, &options)?;
    let mut step = match trainer.load(path, parts::ALL) {
        Ok(report) => report.json()["step"].number().unwrap_or(0.0) as i64,
        Err(e) if e.code == Code::NotFound => 0,
        Err(e) => return Err(e),
    };
    while step < steps {
        let (pixels, labels) = make_batch(step);
        let shape = [BATCH as i64, SIDE as i64, SIDE as i64, 1];
        let image = Tensor::from_vec(context, pixels, &shape)?;
        let label = Tensor::from_vec(context, labels, &shape[..1])?;
        let info = trainer.step(&[&image, &label])?;
        step = info.step;
        if step % 10 == 0 {
            eprintln!("step {step}: loss {:.4}", info.loss);
        }
    }
    trainer.save(path, parts::ALL)?;
    drop(trainer);
    Ok(model)
}

/// The probabilities of the quarters, of a list of 256 numbers.
fn answer(context: &Context, slot: &mut Slot, body: &str) -> std::result::Result<String, String> {
    let json = Json::parse(body).ok_or("no JSON")?;
    let pixels: Vec<f32> =
        json.elements().iter().filter_map(Json::number).map(|number| number as f32).collect();
    if pixels.len() != SIDE * SIDE {
        return Err(format!("{} numbers, expected {}", pixels.len(), SIDE * SIDE));
    }
    let predict = || {
        let image = Tensor::from_vec(context, pixels, &[1, SIDE as i64, SIDE as i64, 1])?;
        slot.run(&[&image])?[1].read::<f32>()
    };
    predict().map(|probabilities| format!("{probabilities:?}")).map_err(|e| e.to_string())
}

/// Reads one request, and gives what stands behind its head.
fn request(stream: &TcpStream) -> io::Result<(String, String)> {
    let mut reader = BufReader::new(stream).take(LONGEST_REQUEST as u64);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length.min(LONGEST_REQUEST)];
    reader.read_exact(&mut body)?;
    Ok((first, String::from_utf8_lossy(&body).into_owned()))
}

fn respond(context: &Context, slot: &mut Slot, mut stream: TcpStream) -> io::Result<()> {
    let (first, body) = request(&stream)?;
    let (status, text) = if !first.starts_with("POST /quarter ") {
        ("404 Not Found", "POST /quarter".to_string())
    } else {
        match answer(context, slot, &body) {
            Ok(text) => ("200 OK", text),
            Err(text) => ("400 Bad Request", text),
        }
    };
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
}

/// Answers requests on several threads, each with a slot of its own, until the listener fails.
pub fn serve(context: &Context, predictor: &Predictor, listener: &TcpListener) -> Result<()> {
    let slots = (0..WORKERS).map(|_| predictor.slot()).collect::<Result<Vec<_>>>()?;
    thread::scope(|scope| {
        for mut slot in slots {
            scope.spawn(move || {
                while let Ok((stream, _)) = listener.accept() {
                    if let Err(e) = respond(context, &mut slot, stream) {
                        eprintln!("{e}");
                    }
                }
            });
        }
    });
    Ok(())
}

pub fn run(arguments: &[String]) -> std::result::Result<(), Box<dyn Error>> {
    if arguments.len() < 2 || arguments.len() > 3 {
        return Err("train_and_serve CHECKPOINT STEPS [ADDRESS]".into());
    }
    let context = Context::new(ContextOptions::default())?;
    let model = train(&context, &arguments[0], arguments[1].parse()?)?;
    if let Some(address) = arguments.get(2) {
        let listener = TcpListener::bind(address)?;
        serve(&context, &Predictor::new(&model, "")?, &listener)?;
    }
    Ok(())
}

#[allow(dead_code)]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(e) = run(&arguments) {
        eprintln!("{e}");
        std::process::exit(1);
    }
}
