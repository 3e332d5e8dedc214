//! The whole interface through the crate.
mod common;

use assay::*;
use common::Folder;
use std::io::{self, BufWriter, Cursor, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const ROWS: i64 = 4;
const SMALL: &str = r#"{"image": [8, 8, 1], "classes": 3, "conv": [4], "hidden": [0]}"#;

fn context() -> Context {
    Context::new(ContextOptions { threads: 1, ..Default::default() }).unwrap()
}

/// Images and labels from a seed.
fn batch_of(context: &Context, seed: u64, shape: &[i64]) -> [Tensor; 2] {
    let mut state = seed + 1;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    let pixels: Vec<f32> = (0..shape.iter().product()).map(|_| random()).collect();
    let labels: Vec<i32> = (0..shape[0]).map(|_| (random() * 3.0) as i32).collect();
    [
        Tensor::from_vec(context, pixels, shape).unwrap(),
        Tensor::from_vec(context, labels, &shape[..1]).unwrap(),
    ]
}

fn small_batch(context: &Context, seed: u64) -> [Tensor; 2] {
    batch_of(context, seed, &[ROWS, 8, 8, 1])
}

fn small_trainer(context: &Context) -> (Model, Trainer) {
    let mut model = Model::named(context, "cnn", SMALL).unwrap();
    let options = TrainerOptions {
        batch_size: ROWS,
        seed: 7,
        learning_rate: 0.05,
        config: r#"{"optimizer": {"name": "sgd", "momentum": 0.9}}"#,
        ..Default::default()
    };
    let trainer = Trainer::new(&mut model, &options).unwrap();
    (model, trainer)
}

fn step(trainer: &mut Trainer, [image, label]: &[Tensor; 2]) -> StepInfo {
    trainer.step(&[image, label]).unwrap()
}

/// Expects a code, and gives the error.
#[track_caller]
fn fails<T>(result: Result<T>, code: Code) -> Error {
    let error = result.err().expect("a failure");
    assert_eq!(error.code, code, "{error}");
    assert!(!error.message.is_empty());
    error
}

fn go_on(_: &str, _: i64, _: i64) -> std::ops::ControlFlow<()> {
    Continue(())
}

#[test]
fn everything_may_travel_be_shared_and_shown() {
    fn check<T: Send + Sync + std::fmt::Debug>() {}
    check::<Context>();
    check::<Tensor>();
    check::<View>();
    check::<Model>();
    check::<Graph>();
    check::<Trainer>();
    check::<Predictor>();
    check::<Slot>();
    check::<Loader>();
    check::<Batch>();
    check::<Vocabulary>();
    check::<Question>();
    check::<Squad>();
    check::<Detections>();
    check::<Comm>();
    check::<Interrupter>();
    check::<Error>();
    check::<Report>();
    check::<ContextOptions>();
    check::<TrainerOptions>();
}

#[test]
fn the_library_is_known() {
    assert_eq!(abi_version() >> 16, 1);
    assert!(!version().is_empty());
    let all = devices().unwrap();
    assert_eq!(all[0].id, DeviceId::Cpu);
    assert!(all[0].threads >= 1 && !all[0].name.is_empty());
}

#[test]
fn errors_say_what_is_wrong() {
    let c = context();
    let e = fails(Model::named(&c, "cnn", r#"{"clases": 3}"#), Code::Invalid);
    assert!(e.hint.contains("classes") && e.argument == "clases" && !e.retry, "{e:?}");
    assert_eq!(Model::named(&c, "cnm", "").unwrap_err().code, Code::NotFound);
    let e = fails(inspect_checkpoint(Folder::new().at("none")), Code::NotFound);
    let source = std::error::Error::source(&e).unwrap();
    let source = source.downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn tensors() {
    let c = context();
    let mut a = Tensor::from_vec(&c, vec![1i64, -2, 3, 4, 5, 6], &[2, 3]).unwrap();
    let info = a.info().unwrap();
    assert_eq!((info.dtype, info.shape, info.bytes), (DType::I64, vec![2, 3], 48));
    assert_eq!(a.read::<i64>().unwrap(), [1, -2, 3, 4, 5, 6]);
    a.write(&[6i64, 5, 4, 3, 2, 1]).unwrap();
    assert_eq!(a.read::<i64>().unwrap(), [6, 5, 4, 3, 2, 1]);
    let e = fails(a.write(&[1i64]), Code::Invalid);
    assert_eq!(e.message, "1 elements, the tensor of shape [2, 3] has 6");
    fails(a.read_into(&mut [0i64; 7]), Code::Invalid);
    fails(a.write(&[1i32]), Code::Invalid);
    fails(a.read::<f32>(), Code::Invalid);
    fails(Tensor::from_vec(&c, vec![1u8], &[2]), Code::Invalid);
    fails(Tensor::from_vec(&c, vec![0u8; 0], &[-1, 0]), Code::Invalid);
    let scalar = Tensor::from_vec(&c, vec![F16(0x3c00)], &[]).unwrap();
    assert_eq!(scalar.read::<F16>().unwrap(), [F16(0x3c00)]);
    assert_eq!(scalar.info().unwrap().shape, []);
    let none = Tensor::from_vec(&c, Vec::<u8>::new(), &[0, 4]).unwrap();
    assert_eq!(none.read::<u8>().unwrap(), []);
    assert_eq!(Tensor::zeros(&c, DType::Bf16, &[2]).unwrap().read::<Bf16>().unwrap(), [Bf16(0); 2]);
    let shared = unsafe { Tensor::from_dlpack(&c, a.to_dlpack().unwrap()) }.unwrap();
    drop(a);
    assert_eq!(shared.info().unwrap().shape, [2, 3]);
    assert_eq!(shared.read::<i64>().unwrap(), [6, 5, 4, 3, 2, 1]);
}

#[test]
fn what_is_dropped_is_freed() {
    let c = context();
    {
        let (model, mut trainer) = small_trainer(&c);
        step(&mut trainer, &small_batch(&c, 1));
        let mut slot = Predictor::new(&model, "").unwrap().slot().unwrap();
        drop(model);
        slot.run(&[&small_batch(&c, 1)[0]]).unwrap();
        assert!(c.mem_stats(DeviceId::Cpu).unwrap().blocks > 0);
    }
    let stats = c.mem_stats(DeviceId::Cpu).unwrap();
    assert_eq!((stats.in_use, stats.blocks), (0, 0));
    assert!(stats.peak > 0);
}

#[test]
fn a_resumed_training_has_the_same_bits() {
    let c = context();
    let folder = Folder::new();
    let path = folder.at("ckpt");
    let (_, mut whole) = small_trainer(&c);
    for i in 0..4 {
        step(&mut whole, &small_batch(&c, i));
        if i == 1 {
            whole.set_metadata("note", Some(b"")).unwrap();
            whole.set_metadata("of", Some(b"the host")).unwrap();
            whole.save(&path, parts::ALL).unwrap();
        }
    }
    let (model, mut resumed) = small_trainer(&c);
    assert_eq!(resumed.load(&path, parts::ALL).unwrap().json()["step"].number(), Some(2.0));
    assert_eq!(resumed.metadata("note").unwrap(), b"");
    assert_eq!(resumed.metadata("of").unwrap(), b"the host");
    resumed.set_metadata("of", None).unwrap();
    fails(resumed.metadata("of"), Code::NotFound);
    resumed.set_metadata("of", Some(b"the host")).unwrap();
    for i in 2..4 {
        let info = step(&mut resumed, &small_batch(&c, i as u64));
        assert_eq!((info.step, info.samples, info.updated), (i + 1, ROWS * (i + 1), true));
    }
    let (a, b) = (folder.at("a"), folder.at("b"));
    whole.save(&a, parts::ALL).unwrap();
    resumed.save(&b, parts::ALL).unwrap();
    let diff = diff_checkpoints(&a, &b).unwrap();
    assert_eq!(diff.json()["identical"], Json::Bool(true), "{}", diff.text());
    assert_eq!(verify_checkpoint(&a).unwrap().json()["ok"], Json::Bool(true));

    // The weights alone, through safetensors and through the file that says what model it is of.
    let tensors = folder.at("a.safetensors");
    convert_checkpoint(&a, &tensors, "safetensors", "", Kind::Value).unwrap();
    let mut loaded = Model::named(&c, "cnn", SMALL).unwrap();
    loaded.load_weights(&tensors, "safetensors", "", false).unwrap();
    let opened = Model::open(&c, &a).unwrap();
    let weight = |m: &Model| m.tensor("output.weight", Kind::Value).unwrap().read::<f32>().unwrap();
    assert_eq!(weight(&loaded), weight(&model));
    assert_eq!(weight(&opened), weight(&model));
    opened.save_weights(folder.at("again"), "safetensors", "").unwrap();
}

/// Fails behind the first `n` bytes, both ways.
struct Broken {
    bytes: Cursor<Vec<u8>>,
    n: u64,
}

impl Broken {
    fn check(&self, more: usize) -> io::Result<()> {
        if self.bytes.position() + more as u64 > self.n {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "broken"));
        }
        Ok(())
    }
}

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check(bytes.len())?;
        self.bytes.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.check(1)
    }
}

impl Read for Broken {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.check(bytes.len())?;
        self.bytes.read(bytes)
    }
}

impl Seek for Broken {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}

fn source(error: &Error) -> io::ErrorKind {
    std::error::Error::source(error).unwrap().downcast_ref::<io::Error>().unwrap().kind()
}

#[test]
fn checkpoints_without_files() {
    let c = context();
    let (model, mut trainer) = small_trainer(&c);
    step(&mut trainer, &small_batch(&c, 1));
    let mut saved = vec![];
    trainer.save_to(&mut BufWriter::new(&mut saved), parts::ALL).unwrap();
    let folder = Folder::new();
    std::fs::write(folder.at("a"), &saved).unwrap();
    assert_eq!(verify_checkpoint(folder.at("a")).unwrap().json()["ok"], Json::Bool(true));

    let weight = |m: &Model| m.tensor("output.weight", Kind::Value).unwrap().read::<f32>().unwrap();
    let (other, mut resumed) = small_trainer(&c);
    let report = resumed.load_from(&mut Cursor::new(&saved), parts::ALL).unwrap();
    assert_eq!(report.json()["step"].number(), Some(1.0));
    assert_eq!(weight(&other), weight(&model));
    assert_eq!(weight(&Model::open_from(&c, &mut Cursor::new(&saved)).unwrap()), weight(&model));
    let inspected = inspect_checkpoint_from(&mut std::fs::File::open(folder.at("a")).unwrap());
    assert_eq!(inspected.unwrap().json()["format"].string(), Some("checkpoint"));

    // What a stream says is the source.
    let size = saved.len() as u64;
    for n in [size / 2, size] {
        let mut half = Broken { bytes: Cursor::new(vec![]), n };
        let e = fails(trainer.save_to(&mut half, parts::ALL), Code::Io);
        assert_eq!((source(&e), e.native_code), (io::ErrorKind::BrokenPipe, -1), "{e:?}");
    }
    let mut half = Broken { bytes: Cursor::new(saved.clone()), n: size - 1 };
    let e = fails(resumed.load_from(&mut half, parts::ALL), Code::Io);
    assert_eq!(source(&e), io::ErrorKind::BrokenPipe);
    saved.pop();
    fails(Model::open_from(&c, &mut Cursor::new(&saved)), Code::Format);
    fails(inspect_checkpoint_from(&mut io::empty()), Code::Format);
}

#[test]
fn a_panic_of_a_stream_goes_on_where_the_call_was_made() {
    struct Panics;
    impl Write for Panics {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("of a stream");
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let c = context();
    let (_, mut trainer) = small_trainer(&c);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = trainer.save_to(&mut Panics, parts::ALL);
    }));
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"of a stream"));
    step(&mut trainer, &small_batch(&c, 1));
}

#[test]
fn paths_are_of_any_kind() {
    let c = context();
    let folder = Folder::new();
    let (_, mut trainer) = small_trainer(&c);
    step(&mut trainer, &small_batch(&c, 1));
    let text: String = folder.at("a");
    let path = std::path::PathBuf::from(&text);
    trainer.save(&path, parts::ALL).unwrap();
    trainer.save(path.as_path(), parts::ALL).unwrap();
    trainer.save(path.clone(), parts::ALL).unwrap();
    for report in [inspect_checkpoint(&text), inspect_checkpoint(text.as_str())] {
        assert_eq!(report.unwrap().json()["path"].string(), Some(text.as_str()));
    }
    Model::open(&c, path.with_file_name("a")).unwrap();

    // Some of the parts.
    trainer.save(&path, parts::WEIGHTS | parts::STATISTICS).unwrap();
    trainer.load(&path, parts::STATISTICS).unwrap();
    fails(trainer.load(&path, parts::MOMENTS), Code::Invalid);
}

#[test]
fn a_split_step_is_a_step() {
    let c = context();
    let (_, mut one) = small_trainer(&c);
    let (model, mut two) = small_trainer(&c);
    let batch = small_batch(&c, 1);
    step(&mut one, &batch);
    two.backward(&[&batch[0], &batch[1]]).unwrap();
    let gradient = model.tensor("output.bias", Kind::Gradient).unwrap();
    assert_ne!(gradient.read::<f32>().unwrap(), [0.0; 3]);
    two.apply().unwrap();
    two.prefetch(&[&batch[0], &batch[1]]).unwrap();
    one.set("learning_rate", 0.01).unwrap();
    two.set("learning_rate", 0.01).unwrap();
    let (a, b) = (step(&mut one, &batch), two.step(&[]).unwrap());
    assert_eq!(a.loss, b.loss);
    assert_eq!(a.learning_rate, 0.01);
    let eval = one.eval(&[&batch[0], &batch[1]], false).unwrap();
    assert!(eval.samples == ROWS && eval.loss_sum > 0.0);
    assert_eq!(one.scalar("loss").unwrap(), eval.loss_sum);
    assert_eq!(one.output("logits").unwrap().info().unwrap().shape, [ROWS, 3]);
    fails(one.eval(&[&batch[0], &batch[1]], true), Code::Invalid);
    fails(one.step(&[&batch[0]]), Code::Invalid);
    one.profile(1).unwrap().json();
    assert_eq!(one.report().unwrap().json()["step"].number(), Some(2.0));
    let described = model.report().unwrap().json();
    assert_eq!(described["architecture"].string(), Some("cnn"));
    let same = Model::named(&c, "cnn", &described["config"].to_string()).unwrap();
    assert_eq!(same.report().unwrap().json()["config"], described["config"]);
    model.check(DeviceId::Cpu, Mode::Predict, "").unwrap();
    models().unwrap().json();
    c.environment().unwrap().json();
}

/// A step that is long enough to be met.
fn slow_trainer(c: &Context) -> (Trainer, [Tensor; 2]) {
    let mut model = Model::named(c, "resnet18", r#"{"width": 32, "classes": 3}"#).unwrap();
    let options = TrainerOptions {
        batch_size: 16,
        learning_rate: 0.01,
        config: r#"{"optimizer": {"name": "sgd"}}"#,
        ..Default::default()
    };
    let mut trainer = Trainer::new(&mut model, &options).unwrap();
    let batch = batch_of(c, 1, &[16, 32, 32, 3]);
    step(&mut trainer, &batch); // plans
    (trainer, batch)
}

#[test]
fn an_interrupter_stops_one_trainer() {
    let c = context();
    let (mut trainer, batch) = slow_trainer(&c);
    let (_, mut other) = small_trainer(&c);
    let small = small_batch(&c, 1);
    let interrupter = trainer.interrupter();
    let (stop, others) = (AtomicBool::new(false), AtomicUsize::new(0));
    let cancelled = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                interrupter.interrupt();
                thread::sleep(Duration::from_micros(500));
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                step(&mut other, &small);
                others.fetch_add(1, Ordering::Relaxed);
            }
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut cancelled = 0;
        while (cancelled < 3 || others.load(Ordering::Relaxed) < 3) && Instant::now() < deadline {
            if let Err(e) = trainer.step(&[&batch[0], &batch[1]]) {
                assert_eq!(e.code, Code::Cancelled);
                cancelled += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        cancelled
    });
    assert!(cancelled >= 3 && others.load(Ordering::Relaxed) >= 3);
    step(&mut trainer, &batch);
    c.interrupt(); // nothing runs: nothing happens
    drop(trainer);
    interrupter.interrupt();
}

#[test]
fn many_threads_predict() {
    let c = context();
    let mut model = Model::named(&c, "cnn", SMALL).unwrap();
    model.initialize(3).unwrap();
    let predictor = Predictor::new(&model, r#"{"max_batch": 8}"#).unwrap();
    assert_eq!(predictor.max_batch(), 8);
    assert_eq!(predictor.inputs()[0].sample_shape, [8, 8, 1]);
    assert_eq!(predictor.outputs()[0].name, "logits");
    let folder = Folder::new();
    let exported = folder.at("small.onnx");
    predictor.export(&exported, "onnx").unwrap();
    assert!(std::fs::metadata(&exported).unwrap().len() > 0);
    fails(predictor.export(&exported, "other"), Code::Invalid);
    let predict = |slot: &mut Slot, seed| {
        let [image, _] = small_batch(&c, seed);
        let out = slot.run(&[&image]).unwrap();
        assert_eq!(out[0].as_slice::<f32>().unwrap(), out[0].read::<f32>().unwrap());
        fails(out[0].as_slice::<i32>().map(|_| ()), Code::Invalid);
        out[0].read::<f32>().unwrap()
    };
    let mut slot = predictor.slot().unwrap();
    let expected: Vec<_> = (0..32).map(|seed| predict(&mut slot, seed)).collect();
    assert_ne!(expected[0], expected[1]);
    thread::scope(|scope| {
        for t in 0..32 {
            let (predictor, predict, expected) = (predictor.clone(), &predict, &expected);
            scope.spawn(move || {
                let mut slot = predictor.slot().unwrap();
                for i in 0..5 {
                    assert_eq!(predict(&mut slot, (t + i) % 32), expected[((t + i) % 32) as usize]);
                }
            });
        }
    });
    slot.prepare(2).unwrap();
    slot.profile(2, 1).unwrap();
    slot.interrupter().interrupt();
    let mut out = [Tensor::zeros(&c, DType::F32, &[ROWS, 3]).unwrap()];
    slot.run_into(&[&small_batch(&c, 5)[0]], &mut out).unwrap();
    assert_eq!(out[0].read::<f32>().unwrap(), expected[5]);
    fails(slot.run(&[]), Code::Invalid);
    predictor.report().unwrap();
}

#[test]
fn an_own_network() {
    let c = context();
    let mut g = Graph::new(&c, "line").unwrap();
    let x = g.input("x", r#"{"shape": [2]}"#).unwrap();
    let label = r#"{"dtype": "i32", "label": true, "range": [0, 3]}"#;
    let label = g.input("label", label).unwrap();
    fails(g.layer("linaer", "fc", "", &[x]), Code::NotFound);
    let e = fails(g.layer("softmax_cross_entropy", "fc", "", &[x]), Code::Invalid);
    assert_eq!(e.op_path, "fc");
    let y = g.layer("linear", "fc", r#"{"features": 3}"#, &[x]).unwrap();
    let loss = g.layer("softmax_cross_entropy", "ce", "", &[y, label]).unwrap();
    g.output("loss", loss, None, "").unwrap();
    g.output("logits", y, None, "").unwrap();
    g.report().unwrap();
    let mut model = g.finish().unwrap();
    let options = TrainerOptions {
        batch_size: ROWS,
        learning_rate: 0.1,
        config: r#"{"optimizer": {"name": "adam"}}"#,
        ..Default::default()
    };
    let mut trainer = Trainer::new(&mut model, &options).unwrap();
    let batch = batch_of(&c, 1, &[ROWS, 2]);
    let first = step(&mut trainer, &batch).loss;
    for _ in 0..20 {
        step(&mut trainer, &batch);
    }
    assert!(step(&mut trainer, &batch).loss < first);
}

/// A source in the format of Fashion-MNIST: image i has all pixels i, label i % 10.
fn fashion(folder: &Folder, train: u32) -> String {
    let source = folder.at("source");
    std::fs::create_dir(&source).unwrap();
    for (prefix, n) in [("train", train), ("t10k", 7)] {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
        let mut pixels = words(&[0x803, n, 28, 28]);
        let mut labels = words(&[0x801, n]);
        for i in 0..n {
            pixels.extend([i as u8; 28 * 28]);
            labels.push((i % 10) as u8);
        }
        std::fs::write(format!("{source}/{prefix}-images-idx3-ubyte"), pixels).unwrap();
        std::fs::write(format!("{source}/{prefix}-labels-idx1-ubyte"), labels).unwrap();
    }
    source
}

/// The labels of all batches to come.
fn labels(loader: &mut Loader) -> Vec<i32> {
    let mut all = vec![];
    while let Some(batch) = loader.next().unwrap() {
        assert_eq!((batch.rows, batch.valid), (5, 5));
        assert_eq!(batch.tensors[0].info().unwrap().shape, [5, 28, 28, 1]);
        all.extend(batch.tensors[1].as_slice::<i32>().unwrap());
    }
    all
}

#[test]
fn data_sets() {
    let c = context();
    let folder = Folder::new();
    let (source, set) = (fashion(&folder, 21), folder.at("set"));
    let convert = |p: &mut dyn FnMut(&str, i64, i64) -> std::ops::ControlFlow<()>| {
        convert_dataset(&c, "fashion_mnist", &source, &set, r#"{"shards": 2}"#, p)
    };
    fails(convert(&mut |_, _, _| Break(())), Code::Cancelled);
    let panicking = std::panic::AssertUnwindSafe(|| convert(&mut |_, _, _| panic!("in between")));
    assert!(std::panic::catch_unwind(panicking).is_err());
    let mut calls = 0;
    convert(&mut |_, _, _| {
        calls += 1;
        Continue(())
    })
    .unwrap();
    assert!(calls > 0);
    verify_dataset(&c, &set, go_on).unwrap();
    dataset_report(&set).unwrap();
    datasets().unwrap();
    fails(export_dataset(&c, &set, folder.at("out"), "", go_on), Code::Unsupported);

    let config = r#"{"batch_size": 5, "seed": 3, "epochs": 2}"#;
    let mut loader = Loader::new(&c, &set, "train", config, r#"{"flip_horizontal": 0.5}"#).unwrap();
    assert_eq!(loader.arrays()[1].name, "label");
    let whole = labels(&mut loader);
    assert_eq!(whole.len(), 2 * 20);
    loader.seek(1).unwrap();
    assert_eq!(labels(&mut loader), whole[20..]);

    let mut other = Loader::new(&c, &set, "train", config, "").unwrap();
    let mut model = Model::named(&c, "cnn", r#"{"conv": [2], "hidden": [0]}"#).unwrap();
    let options = TrainerOptions {
        batch_size: 5,
        learning_rate: 0.01,
        config: r#"{"optimizer": {"name": "sgd"}}"#,
        ..Default::default()
    };
    let mut trainer = Trainer::new(&mut model, &options).unwrap();
    let batch = other.next().unwrap().unwrap();
    trainer.step(&batch.tensors()).unwrap();
    trainer.set_metadata(CURSOR, Some(&other.cursor().unwrap())).unwrap();
    other.next().unwrap();
    other.restore(&trainer.metadata(CURSOR).unwrap()).unwrap();
    assert_eq!(labels(&mut other), whole[5..]);
    fails(other.restore(b"no cursor"), Code::Format);
    other.report().unwrap();
}

#[test]
fn an_interrupter_stops_a_loader() {
    let c = context();
    let folder = Folder::new();
    let set = folder.at("set");
    let source = fashion(&folder, 20000);
    convert_dataset(&c, "fashion_mnist", &source, &set, "", go_on).unwrap();
    let config = r#"{"batch_size": 20000, "workers": 1, "prefetch": 1, "order": "sequential", "cache_mib": 0}"#;
    let mut loader =
        Loader::new(&c, &set, "train", config, r#"{"rotation_degrees": 180}"#).unwrap();
    let interrupter = loader.interrupter();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                interrupter.interrupt();
                thread::sleep(Duration::from_millis(1));
            }
        });
        fails(loader.next().map(|_| ()), Code::Cancelled);
        over.store(true, Ordering::Relaxed);
    });
    let batch = loader.next().unwrap().unwrap(); // goes on
    let labels = batch.tensors[1].as_slice::<i32>().unwrap();
    assert_eq!(labels[..12], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
}

#[test]
fn samples_of_the_program() {
    const PAIRS: &str = r#"{"arrays": [
        {"name": "x", "shape": [2]}, {"name": "y", "dtype": "i32", "label": true}]}"#;
    let c = context();
    let broken = Arc::new(AtomicBool::new(true));
    let data = broken.clone();
    let sample = move |i: i64, give: &mut Give| {
        if i == 5 && data.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied).into());
        }
        give.part("y", &[i as i32]);
        give.part("x", &[i as f32, -(i as f32)]);
        Ok(())
    };
    let config = r#"{"batch_size": 4, "order": "sequential", "last_batch": "pad", "epochs": 1}"#;
    let mut loader = Loader::from_samples(&c, 9, sample, PAIRS, config, "").unwrap();
    let labels = |loader: &mut Loader| -> Vec<i32> {
        loader.next().unwrap().unwrap().tensors[1].read().unwrap()
    };
    assert_eq!(loader.arrays()[1].name, "y");
    assert_eq!(labels(&mut loader), [0, 1, 2, 3]);
    for _ in 0..2 {
        let e = fails(loader.next(), Code::Callback);
        assert_eq!(source(&e), io::ErrorKind::PermissionDenied);
    }
    broken.store(false, Ordering::Relaxed);
    assert_eq!(labels(&mut loader), [4, 5, 6, 7]);
    assert_eq!(labels(&mut loader), [8, -1, -1, -1]);
    assert!(loader.next().unwrap().is_none());
    assert_eq!(Arc::strong_count(&broken), 2);
    drop(loader);
    assert_eq!(Arc::strong_count(&broken), 1);

    let data = broken.clone();
    let short = move |_: i64, give: &mut Give| {
        give.part("x", &[data.load(Ordering::Relaxed) as i32]);
        Ok(())
    };
    fails(Loader::from_samples(&c, 9, short.clone(), "{}", config, ""), Code::Invalid);
    let mut loader = Loader::from_samples(&c, 9, short, PAIRS, config, "").unwrap();
    let e = fails(loader.next().map(|_| ()), Code::Callback);
    assert!(e.message.contains("as i32[1], expected f32[2]"), "{e}");
    assert!(std::error::Error::source(&e).is_none());
    drop(loader);
    assert_eq!(Arc::strong_count(&broken), 1);
}

#[test]
fn the_program_decodes_pictures() {
    // "RAWP", height, width, then grey bytes.
    let folder = Folder::new();
    for (name, bytes) in [
        ("a/1.png", [&b"RAWP\x02\x03"[..], &[0x50; 6]].concat()),
        ("b/2.png", [&b"RAWP\x04\x04"[..], &[0x90; 16]].concat()),
        ("b/3.png", b"else".to_vec()),
    ] {
        let path = folder.at("train/") + name;
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let logged = Arc::new(Mutex::new(vec![]));
    let log = logged.clone();
    let decoding = |missing: usize| ContextOptions {
        threads: 1,
        read_image: Some(Box::new(move |file: &[u8]| {
            let rest = file.strip_prefix(b"RAWP")?;
            let (height, width) = (u32::from(rest[0]), u32::from(rest[1]));
            let data = rest[2 + missing..].to_vec();
            Some(vec![Picture { height, width, channels: 1, bits: 8, data }])
        })),
        ..Default::default()
    };
    let options = ContextOptions {
        log_level: Some(LogLevel::Debug),
        log: Some(Box::new(move |_, component: &str, _: &str| {
            log.lock().unwrap().push(component.to_string());
        })),
        ..decoding(0)
    };
    let c = Context::new(options).unwrap();
    let (source, set) = (folder.at(""), folder.at("set"));
    let manifest = convert_dataset(&c, "imagenet", &source, &set, "", go_on).unwrap();
    assert_eq!(manifest.json()["splits"][0]["records"].number(), Some(2.0));
    let config = r#"{"batch_size": 2, "order": "sequential"}"#;
    let transform = r#"{"crop": "stretch", "size": 4, "scale": 1}"#;
    let mut loader = Loader::new(&c, &set, "train", config, transform).unwrap();
    drop(c);
    let batch = loader.next().unwrap().unwrap();
    let pixels = batch.tensors[0].as_slice::<f32>().unwrap();
    for (row, &label) in batch.tensors[1].as_slice::<i32>().unwrap().iter().enumerate() {
        assert_eq!(pixels[row * 48], [80.0, 144.0][label as usize]);
    }
    assert!(logged.lock().unwrap().iter().any(|component| component == "context"));
    let short = Context::new(decoding(1)).unwrap();
    let result = convert_dataset(&short, "imagenet", &source, folder.at("set2"), "", go_on);
    fails(result, Code::Callback);
}

#[test]
fn a_panic_of_a_log_ends_the_program() {
    const VARIABLE: &str = "ASSAY_TEST_PANIC";
    if std::env::var_os(VARIABLE).is_some() {
        let options = ContextOptions {
            log_level: Some(LogLevel::Debug),
            log: Some(Box::new(|_, _, _| panic!("in the log"))),
            ..Default::default()
        };
        let make = std::panic::AssertUnwindSafe(|| Context::new(options).map(|_| ()));
        let _ = std::panic::catch_unwind(make);
        return; // must not be reached
    }
    let name = "a_panic_of_a_log_ends_the_program";
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let output =
        program.args(["--exact", name, "--nocapture"]).env(VARIABLE, "1").output().unwrap();
    assert_eq!(output.status.code(), None, "no signal ended it");
    assert!(String::from_utf8_lossy(&output.stderr).contains("in the log"));
}

#[test]
fn text() {
    const PIECES: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwho\nis\nit\n?\nann\n##a\n.\n";
    let folder = Folder::new();
    let v = Vocabulary::parse(PIECES, "").unwrap();
    assert_eq!(v.contents().unwrap(), PIECES);
    let pieces = v.tokenize("It is Anna").unwrap();
    let ids: Vec<_> = pieces.iter().map(|p| (p.id, p.begin, p.end)).collect();
    assert_eq!(ids, [(7, 0, 2), (6, 3, 5), (9, 6, 9), (10, 9, 10)]);
    assert_eq!(v.tokenize("").unwrap(), []);
    let file = folder.at("vocab.txt");
    std::fs::write(&file, PIECES).unwrap();
    let short = Vocabulary::open(&file, r#"{"longest_word": 3}"#).unwrap();
    assert_eq!(short.tokenize("Anna").unwrap(), [Piece { id: 1, begin: 0, end: 4 }]);

    let config = r#"{"sequence_length": 16, "stride": 4, "max_question": 5}"#;
    let q = v.question("Who is it?", "It is Anna.", config).unwrap();
    let windows = q.windows().unwrap();
    assert_eq!((windows.length, &windows.lengths[..]), (16, &[12][..]));
    assert_eq!(windows.ids, [2, 5, 6, 7, 8, 3, 7, 6, 9, 10, 11, 3, 0, 0, 0, 0]);
    assert_eq!(windows.types[5..13], [0, 1, 1, 1, 1, 1, 1, 0]);
    let (mut start, mut end) = ([0.0; 16], [0.0; 16]);
    (start[8], end[9]) = (5.0, 5.0);
    let answer =
        |report: Result<Report>| report.unwrap().json()["answer"].string().unwrap().to_string();
    assert_eq!(answer(q.answer(&start, &end, "")), "Anna");
    fails(q.answer(&start, &end[1..], ""), Code::Invalid);
    let spans = Spans {
        windows: 1,
        starts: 2,
        ends: 1,
        start: &[8, 6],
        start_log_prob: &[-1.0, -2.0],
        end: &[9, 6],
        end_log_prob: &[-1.0, -1.0],
        class_logit: Some(&[-3.0]),
    };
    assert_eq!(answer(q.answer_spans(&spans, "")), "Anna");
    assert_eq!(answer(q.answer_spans(&spans, r#"{"null_threshold": -5}"#)), "");
    fails(q.answer_spans(&Spans { ends: 2, ..spans }, ""), Code::Invalid);

    let (squad, predictions) = (folder.at("squad.json"), folder.at("predictions.json"));
    let contents = r#"{"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "It is Anna.",
        "qas": [{"id": "1", "question": "Who is it?", "answers": [{"text": "Anna", "answer_start": 6}]}]}]}]}"#;
    std::fs::write(&squad, contents).unwrap();
    let mut s = Squad::open(&squad).unwrap();
    assert_eq!(s.size().unwrap(), (1, 1));
    assert_eq!(s.question(0, &v, config).unwrap().windows().unwrap(), windows);
    s.answer(0, "anna").unwrap();
    s.save(&predictions).unwrap();
    let score = score_squad(&squad, &predictions).unwrap();
    assert_eq!(score.json()["all"]["exact"].number(), Some(100.0));

    let c = context();
    let (_, mut trainer) = small_trainer(&c);
    step(&mut trainer, &small_batch(&c, 1));
    v.attach(&mut trainer).unwrap();
    let checkpoint = folder.at("a.ckpt");
    trainer.save(&checkpoint, parts::ALL).unwrap();
    assert_eq!(Vocabulary::open(&checkpoint, "").unwrap().contents().unwrap(), PIECES);
}

#[test]
fn detections() {
    let folder = Folder::new();
    let mut d = Detections::new().unwrap();
    let boxes = [1.0, 2.0, 3.0, 5.0, 0.0, 0.0, 0.0, 0.0];
    d.add(7, 2.0, &boxes, &[0.5, 0.0], &[2, -1]).unwrap();
    fails(d.add(7, 2.0, &boxes, &[0.5], &[2]), Code::Invalid);
    let (results, instances) = (folder.at("results.json"), folder.at("instances.json"));
    d.save(&results).unwrap();
    let saved = Json::parse(&std::fs::read_to_string(&results).unwrap()).unwrap();
    let numbers: Vec<_> = saved[0]["bbox"].elements().iter().filter_map(Json::number).collect();
    assert_eq!(numbers, [4.0, 2.0, 6.0, 4.0]);
    let again = Detections::open(&results).unwrap();
    assert_eq!(again.size().unwrap(), (1, 1));
    let contents = r#"{"images": [{"id": 7, "file_name": "7.jpg", "width": 20, "height": 20}],
        "categories": [{"id": 3, "name": "c"}],
        "annotations": [{"id": 1, "image_id": 7, "category_id": 3, "bbox": [4, 2, 6, 4], "area": 24, "iscrowd": 0}]}"#;
    std::fs::write(&instances, contents).unwrap();
    let score = again.score(&instances, "").unwrap();
    assert!(score.json()["all"]["ap"].number().unwrap() > 0.999);
}

fn among_ranks(comm: &Comm) -> TrainerOptions<'_> {
    TrainerOptions {
        batch_size: ROWS,
        learning_rate: 0.05,
        comm: Some(comm),
        config: r#"{"optimizer": {"name": "sgd"}}"#,
        ..Default::default()
    }
}

#[test]
fn ranks_are_threads() {
    let c = context();
    let id = CommId::new("local").unwrap();
    let train = |rank: i32| {
        let comm = Comm::new(&c, &id, rank, 2, Duration::from_secs(20)).unwrap();
        assert_eq!(comm.gather(&format!("rank {rank}")).unwrap(), ["rank 0", "rank 1"]);
        let mut model = Model::named(&c, "cnn", SMALL).unwrap();
        let mut trainer = Trainer::new(&mut model, &among_ranks(&comm)).unwrap();
        for _ in 0..3 {
            step(&mut trainer, &small_batch(&c, rank as u64));
        }
        model.tensor("output.weight", Kind::Value).unwrap().read::<f32>().unwrap()
    };
    let (a, b) = thread::scope(|scope| {
        let other = scope.spawn(|| train(1));
        (train(0), other.join().unwrap())
    });
    assert_eq!(a, b);
}

fn wait_for(flag: &AtomicBool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !flag.load(Ordering::SeqCst) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Takes a checkpoint, and lets something else begin meanwhile.
struct Waiting<'a> {
    began: &'a AtomicBool,
    other: &'a AtomicBool,
}

impl Write for Waiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.began.swap(true, Ordering::SeqCst) {
            wait_for(self.other);
            thread::sleep(Duration::from_millis(50));
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn calls_to_other_ranks_wait_for_each_other() {
    let c = context();
    let id = CommId::new("local").unwrap();
    let (saving, gathering) = (AtomicBool::new(false), AtomicBool::new(false));
    let begin = |rank: i32| {
        let comm = Comm::new(&c, &id, rank, 2, Duration::from_secs(20)).unwrap();
        let mut model = Model::named(&c, "cnn", SMALL).unwrap();
        let trainer = Trainer::new(&mut model, &among_ranks(&comm)).unwrap();
        (comm, trainer)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let (comm, trainer) = begin(1);
            trainer.save_to(&mut io::sink(), parts::ALL).unwrap();
            assert_eq!(comm.gather("1").unwrap(), ["0", "1"]);
        });
        let (comm, trainer) = begin(0);
        let mut to = Waiting { began: &saving, other: &gathering };
        scope.spawn(move || {
            trainer.save_to(&mut to, parts::ALL).unwrap();
        });
        wait_for(&saving);
        gathering.store(true, Ordering::SeqCst);
        assert_eq!(comm.gather("0").unwrap(), ["0", "1"]); // once it is saved
    });
}

#[test]
fn every_function_has_a_place_here() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let declared = std::fs::read_to_string(root.join("../assay-sys/src/lib.rs")).unwrap();
    let read = |file: std::fs::DirEntry| std::fs::read_to_string(file.path()).unwrap();
    let code: String =
        std::fs::read_dir(root.join("src")).unwrap().map(|file| read(file.unwrap())).collect();
    let names = declared.split("pub fn ").skip(1).map(|rest| rest.split('(').next().unwrap());
    let missing: Vec<_> = names.filter(|name| !code.contains(&format!("sys::{name}"))).collect();
    assert!(missing.is_empty(), "{missing:?} of assay-sys are not used by this crate");
}
