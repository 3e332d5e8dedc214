//! Trains, checkpoints and runs deep-learning models inside your own program, through libassay's C
//! interface. The headers assay.h, assay_data.h, assay_graph.h and assay_comm.h say what every call
//! does and which keys its configuration knows; this crate keeps their names.
//!
//! **Ownership.** Dropping a value frees what it stands for. Values keep alive what they were made
//! from, so they may be dropped in any order. What a [`Slot`] or a [`Loader`] lends borrows from it.
//!
//! **Threads.** Everything but [`Give`] is `Send` and `Sync`. What the headers call "threads any" takes
//! `&self`, what is to be "alone" `&mut self`, so that the compiler keeps the rule. A model, its trainer and
//! the tensors of its weights are one storage, of which the compiler knows nothing: calls that meet there
//! fail with [`Code::Busy`] and do nothing.
//!
//! **Stopping.** An [`Interrupter`] stops the call that runs with its trainer, slot or loader, from any
//! thread; [`Context::interrupt`] all of a context. Such a call fails with [`Code::Cancelled`] and has
//! changed nothing.
//!
//! **Panics** of functions that the library calls end the program, but for those of progress
//! functions, readers and writers, which go on where the call was made.
//!
//! **Errors** say what the library says, which calls parameters as the headers do, where a few have other
//! names than here: `config_json` is a `config` or `options`, `map_json` a `map`, `sample_json` and
//! `transform_json` are `kind` and `transform`, `samples->count` is `count`, `flags` what a `bool` says,
//! `n` and `n_in` are how many tensors there are, `g` is the graph and `arch` the architecture.
//!
//! Configurations are JSON text; empty text stands for all defaults. Reports are JSON, too: [`Report`].
//!
//! `cargo add assay --path ... --features static` makes the library a part of the program.
//! `examples/train_and_serve.rs` is a program, and says how it is run.
//!
//! ```
//! # fn main() -> assay::Result<()> {
//! use assay::*;
//! let context = Context::new(ContextOptions::default())?;
//! let mut model = Model::named(&context, "cnn", r#"{"image": [8, 8, 1], "classes": 3}"#)?;
//! let options = TrainerOptions {
//!     batch_size: 2,
//!     learning_rate: 0.1,
//!     config: r#"{"optimizer": {"name": "sgd"}}"#,
//!     ..Default::default()
//! };
//! let mut trainer = Trainer::new(&mut model, &options)?;
//! let image = Tensor::from_vec(&context, vec![0.5f32; 128], &[2, 8, 8, 1])?;
//! let label = Tensor::from_vec(&context, vec![0, 1], &[2])?;
//! assert_eq!(trainer.step(&[&image, &label])?.step, 1);
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_op_in_unsafe_fn)]

mod checkpoint;
mod comm;
mod context;
mod data;
mod detections;
mod error;
mod graph;
mod handle;
mod host;
mod json;
mod model;
mod predictor;
mod tensor;
mod text;
mod trainer;

pub use checkpoint::*;
pub use comm::*;
pub use context::*;
pub use data::*;
pub use detections::*;
pub use error::*;
pub use graph::*;
pub use handle::{Interrupter, Report};
pub use host::{Give, Picture, SampleError};
pub use json::*;
pub use model::*;
pub use predictor::*;
pub use tensor::*;
pub use text::*;
pub use trainer::*;

use assay_sys as sys;

/// What the library offers: major << 16 | minor.
pub fn abi_version() -> u32 {
    unsafe { sys::assay_abi_version() }
}

/// The release of the library, "0.1.0".
pub fn version() -> String {
    unsafe { handle::to_string(sys::assay_version_string()) }
}
