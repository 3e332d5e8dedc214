//! No example: a test of Assay's repository, which has what it reads, capi/bindings/cases/cases.txt. That
//! file says what is run, in the folder that this is started in, and C and Go give the same.
use assay::*;
use std::collections::HashMap;
use std::error::Error;
use std::io::Cursor;
use std::ops::ControlFlow::Continue;

type Outcome = std::result::Result<(), Box<dyn Error>>;

/// One case.
#[derive(Default)]
struct Run {
    state: u64,
    /// Shape, and the limit of integers; 0: f32.
    batch: Vec<(Vec<i64>, u64)>,
    values: HashMap<String, Value>,
    graph: Option<Graph>,
    model: Option<Model>,
    trainer: Option<Trainer>,
    loader: Option<Loader>,
    /// A checkpoint.
    kept: Vec<u8>,
}

fn digest(bytes: impl IntoIterator<Item = u8>) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step))
}

fn bits(number: f64) -> String {
    format!("{:016x}", number.to_bits())
}

fn print_tensor(tensor: &Tensor) -> Result<()> {
    let info = tensor.info()?;
    let bytes: Vec<u8> = if info.dtype == DType::F32 {
        tensor.read::<f32>()?.into_iter().flat_map(f32::to_ne_bytes).collect()
    } else {
        tensor.read::<i32>()?.into_iter().flat_map(i32::to_ne_bytes).collect()
    };
    let shape: Vec<String> = info.shape.iter().map(i64::to_string).collect();
    println!("{} {}", digest(bytes), shape.join("x"));
    Ok(())
}

/// 6 x 5 pixels in three colours; those above 99 are refused.
fn picture(i: i64, give: &mut Give) -> std::result::Result<(), SampleError> {
    if i > 99 {
        return Err("too many".into());
    }
    let pixels: Vec<u8> = (0..6 * 5 * 3).map(|k| (31 * i + 7 * k) as u8).collect();
    give.part("image", &pixels);
    give.part("label", &[(i % 4) as i32]);
    Ok(())
}

/// The first word and the rest.
fn cut(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn step(trainer: &mut Trainer, batch: &[&Tensor]) -> Result<()> {
    let info = trainer.step(batch)?;
    let (loss, norm, rate) = (bits(info.loss), bits(info.grad_norm), bits(info.learning_rate));
    println!("step {} {loss} {norm} {rate}", info.step);
    Ok(())
}

impl Run {
    /// 24 random bits (splitmix64).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) >> 40
    }

    fn draw_batch(&mut self, context: &Context) -> Result<Vec<Tensor>> {
        let mut all = vec![];
        for (shape, limit) in self.batch.clone() {
            let n: i64 = shape.iter().product();
            all.push(if limit == 0 {
                let numbers = (0..n).map(|_| self.draw() as f32 / 8388608.0 - 1.0).collect();
                Tensor::from_vec::<f32>(context, numbers, &shape)?
            } else {
                let integers = (0..n).map(|_| (self.draw() % limit) as i32).collect();
                Tensor::from_vec::<i32>(context, integers, &shape)?
            });
        }
        Ok(all)
    }

    fn trainer(&mut self) -> &mut Trainer {
        self.trainer.as_mut().expect("a trainer")
    }

    fn loader(&mut self) -> &mut Loader {
        self.loader.as_mut().expect("a loader")
    }

    fn next(&mut self, n: usize, train: bool) -> Result<()> {
        for _ in 0..n {
            let batch = match self.loader.as_mut().expect("a loader").next()? {
                Some(batch) => batch,
                None => {
                    println!("end");
                    break;
                }
            };
            if train {
                step(self.trainer.as_mut().expect("a trainer"), &batch.tensors())?;
            }
            println!("batch {} {} {}", batch.epoch, batch.index, batch.valid);
            for tensor in &batch.tensors {
                print_tensor(tensor)?;
            }
        }
        Ok(())
    }

    fn predict(&mut self, context: &Context, inputs: usize, config: &str) -> Result<()> {
        let batch = self.draw_batch(context)?;
        let inputs: Vec<&Tensor> = batch[..inputs].iter().collect();
        let predictor = Predictor::new(self.model.as_ref().expect("a model"), config)?;
        for view in predictor.slot()?.run(&inputs)? {
            print_tensor(&view)?;
        }
        Ok(())
    }

    fn layer(&mut self, rest: &str) -> Result<()> {
        let (kind, rest) = cut(rest);
        let (name, rest) = cut(rest);
        let (from, keys) = cut(rest);
        let from: Vec<Value> = from.split(',').map(|name| self.values[name]).collect();
        let graph = self.graph.as_mut().expect("a graph");
        let value = graph.layer(kind, name, keys, &from)?;
        self.values.insert(name.to_string(), value);
        Ok(())
    }

    /// Runs what must fail.
    fn fails(&mut self, context: &Context, verb: &str, rest: &str) -> Outcome {
        let error = self.run(context, verb, rest).err().ok_or_else(|| format!("{verb} works"))?;
        let error = error.downcast::<assay::Error>()?;
        println!("{} | {} | {}", error.code, error.argument, error.message);
        Ok(())
    }

    fn run(&mut self, context: &Context, verb: &str, rest: &str) -> Outcome {
        let (first, second) = cut(rest);
        let n = first.parse::<usize>().unwrap_or(0);
        match verb {
            "case" => {
                *self = Run { state: second.parse()?, ..Run::default() };
                println!("case {first}");
            }
            "model" => self.model = Some(Model::named(context, first, second)?),
            "input" => {
                if self.graph.is_none() {
                    self.graph = Some(Graph::new(context, "cases")?);
                }
                let value = self.graph.as_mut().expect("a graph").input(first, second)?;
                self.values.insert(first.to_string(), value);
            }
            "layer" => self.layer(rest)?,
            "output" => {
                let (value, attributes) = cut(second);
                let value = self.values[value];
                self.graph.as_mut().expect("a graph").output(first, value, None, attributes)?;
            }
            "finish" => self.model = Some(self.graph.as_mut().expect("a graph").finish()?),
            "describe" => {
                let report = self.model.as_ref().expect("a model").report()?;
                println!("report {}", digest(report.text().bytes()));
            }
            "trainer" => {
                let options = TrainerOptions { config: rest, ..Default::default() };
                self.trainer = Some(Trainer::new(self.model.as_mut().expect("a model"), &options)?);
            }
            "f32" | "i32" => {
                let shape =
                    first.split('x').map(str::parse).collect::<std::result::Result<_, _>>()?;
                self.batch.push((shape, second.parse().unwrap_or(0)));
            }
            "step" => {
                for _ in 0..n {
                    let batch = self.draw_batch(context)?;
                    step(self.trainer(), &batch.iter().collect::<Vec<_>>())?;
                }
            }
            "eval" => {
                let batch = self.draw_batch(context)?;
                let info = self.trainer().eval(&batch.iter().collect::<Vec<_>>(), false)?;
                println!("eval {} {} {}", info.samples, bits(info.loss_sum), bits(info.top1));
            }
            "tensor" => {
                let kind = match second {
                    "1" => Kind::Value,
                    "3" => Kind::Moment1,
                    "4" => Kind::Moment2,
                    "5" => Kind::Ema,
                    _ => Kind::Statistic,
                };
                print_tensor(&self.model.as_ref().expect("a model").tensor(first, kind)?)?;
            }
            "save" => self.trainer().save(rest, parts::ALL)?,
            "load" => drop(self.trainer().load(rest, parts::ALL)?),
            "open" => self.model = Some(Model::open(context, rest)?),
            "save_io" => {
                let mut kept = vec![];
                self.trainer().save_to(&mut kept, parts::ALL)?;
                self.kept = kept;
            }
            "load_io" => {
                let kept = self.kept.clone();
                self.trainer().load_from(&mut Cursor::new(kept), parts::ALL)?;
            }
            "open_io" => {
                self.model = Some(Model::open_from(context, &mut Cursor::new(&self.kept))?);
            }
            "cut" => self.kept.truncate(self.kept.len().saturating_sub(n)),
            "predict" => self.predict(context, n, second)?,
            "convert" => {
                let (target, options) = cut(second);
                let progress = |_: &str, _, _| Continue(());
                convert_dataset(context, "fashion_mnist", first, target, options, progress)?;
            }
            "loader" => {
                let (config, transform) = second.split_once("} {").ok_or("no transform")?;
                let (config, transform) = (format!("{config}}}"), format!("{{{transform}"));
                self.loader = Some(Loader::new(context, "set", first, &config, &transform)?);
            }
            "samples" => {
                let texts: Vec<_> = second.split("} {").collect();
                let (kind, config) = (format!("{}}}", texts[0]), format!("{{{}}}", texts[1]));
                let transform = format!("{{{}", texts[2]);
                let n = n as i64;
                let made = Loader::from_samples(context, n, picture, &kind, &config, &transform)?;
                self.loader = Some(made);
            }
            "next" | "train" => self.next(n, verb == "train")?,
            "keep" => {
                let cursor = self.loader().cursor()?;
                self.trainer().set_metadata(CURSOR, Some(&cursor))?;
            }
            "resume" => {
                let cursor = self.trainer().metadata(CURSOR)?;
                self.loader().restore(&cursor)?;
            }
            "tokenize" => {
                for piece in Vocabulary::open("vocab.txt", "")?.tokenize(rest)? {
                    println!("piece {} {} {}", piece.id, piece.begin, piece.end);
                }
            }
            "fails" => self.fails(context, first, second)?,
            _ => return Err(format!("unknown verb {verb}").into()),
        }
        Ok(())
    }
}

fn main() -> Outcome {
    let file = std::env::args().nth(1).ok_or("cases FILE: cases.txt of Assay's repository")?;
    let context = Context::new(ContextOptions { threads: 2, ..Default::default() })?;
    let mut run = Run::default();
    for line in std::fs::read_to_string(file)?.lines() {
        if !line.is_empty() && !line.starts_with('#') {
            let (verb, rest) = cut(line);
            run.run(&context, verb, rest).map_err(|e| format!("{line}: {e}"))?;
        }
    }
    Ok(())
}
