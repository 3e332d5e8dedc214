use crate::handle::{call, lend, lend_path, make, report, Handle, Interrupter};
use crate::tensor::pointers;
use crate::{DType, Error, Json, Model, Report, Result, Tensor, View};
use assay_sys as sys;
use std::path::Path;
use std::ptr::{null_mut, NonNull};
use std::sync::{Arc, Weak};

/// An input or output of a predictor, or an array of a loader's batches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorSpec {
    /// Its name.
    pub name: String,
    /// Of its elements.
    pub dtype: DType,
    /// Without the batch axis, which comes first.
    pub sample_shape: Vec<i64>,
}

impl TensorSpec {
    pub(crate) fn all(rows: &Json) -> Result<Vec<TensorSpec>> {
        let text = |json: &Json| json.string().unwrap_or_default().to_string();
        let row = |row: &Json| {
            let sizes = row["sample_shape"].elements().iter();
            Ok(TensorSpec {
                name: text(&row["name"]),
                dtype: DType::named(&text(&row["dtype"]))?,
                sample_shape: sizes.map(|size| size.number().unwrap_or(0.0) as i64).collect(),
            })
        };
        rows.elements().iter().map(row).collect()
    }
}

#[derive(Debug)]
struct Shared {
    handle: Handle<sys::assay_predictor>,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    max_batch: i64,
}

/// A copy of a model's weights for inference. Threads may share it, each with a [`Slot`] of its own.
#[derive(Clone, Debug)]
pub struct Predictor(Arc<Shared>);

impl Predictor {
    /// Copies the model's present weights; assay_predictor_create says which keys `config` has.
    pub fn new(model: &Model, config: &str) -> Result<Predictor> {
        let handle = make(sys::assay_predictor_free, model.0.host.as_ref(), |out, e| unsafe {
            sys::assay_predictor_create(model.0.get(), lend(config), out, e)
        })?;
        let text = report(|out, e| unsafe { sys::assay_predictor_report(handle.get(), out, e) })?;
        let json = text.json();
        let inputs = TensorSpec::all(&json["inputs"])?;
        let outputs = TensorSpec::all(&json["outputs"])?;
        let max_batch = json["max_batch"].number().unwrap_or(0.0) as i64;
        Ok(Predictor(Arc::new(Shared { handle, inputs, outputs, max_batch })))
    }

    /// What a run takes.
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.0.inputs
    }

    /// What a run gives.
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.0.outputs
    }

    /// The largest batch of a run.
    pub fn max_batch(&self) -> i64 {
        self.0.max_batch
    }

    /// Describes the predictor, its inputs and its outputs.
    pub fn report(&self) -> Result<Report> {
        report(|out, e| unsafe { sys::assay_predictor_report(self.0.handle.get(), out, e) })
    }

    /// Writes what the predictor computes for programs of others, in a format as "onnx".
    pub fn export(&self, path: impl AsRef<Path>, format: &str) -> Result<Report> {
        let (p, path) = (self.0.handle.get(), lend_path(path.as_ref()));
        report(|out, e| unsafe { sys::assay_predictor_export(p, path, lend(format), out, e) })
    }

    /// A slot, for one caller.
    pub fn slot(&self) -> Result<Slot> {
        let handle = make(sys::assay_slot_free, self.0.handle.host.as_ref(), |out, e| unsafe {
            sys::assay_slot_create(self.0.handle.get(), out, e)
        })?;
        Ok(Slot { handle: Arc::new(handle), predictor: self.clone() })
    }
}

/// What one caller runs a predictor with: plans and scratch memory, kept from run to run.
#[derive(Debug)]
pub struct Slot {
    handle: Arc<Handle<sys::assay_slot>>,
    predictor: Predictor,
}

impl Slot {
    /// Stops this slot's runs from other threads.
    pub fn interrupter(&self) -> Interrupter {
        let handle: Weak<Handle<sys::assay_slot>> = Arc::downgrade(&self.handle);
        Interrupter(handle)
    }

    /// Makes the plan for a batch size now instead of in the first run.
    pub fn prepare(&mut self, batch: i64) -> Result<()> {
        call(|e| unsafe { sys::assay_slot_prepare(self.handle.get(), batch, e) })
    }

    fn run_to(&mut self, inputs: &[&Tensor], out: &mut [*mut sys::assay_tensor]) -> Result<()> {
        let inputs = pointers(inputs);
        let (predictor, slot) = (self.predictor.0.handle.get(), self.handle.get());
        call(|e| unsafe {
            let (first, n) = (inputs.as_ptr(), inputs.len());
            sys::assay_predictor_run(predictor, slot, first, n, out.as_mut_ptr(), out.len(), e)
        })
    }

    /// Runs one batch, and lends all outputs until the next run:
    ///
    /// ```compile_fail,E0499
    /// # fn f(slot: &mut assay::Slot, image: &assay::Tensor) -> assay::Result<()> {
    /// let first = slot.run(&[image])?;
    /// let second = slot.run(&[image])?;
    /// drop(first);
    /// # Ok(())
    /// # }
    /// ```
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<View<'_>>> {
        let mut out = vec![null_mut(); self.predictor.0.outputs.len()];
        self.run_to(inputs, &mut out)?;
        let host = &self.handle.host;
        let lent = |object| {
            let object = NonNull::new(object).expect("the library gives what it computed");
            View::new(Tensor(Handle::own(object, sys::assay_tensor_release, host.clone())))
        };
        Ok(out.into_iter().map(lent).collect())
    }

    /// Runs one batch, and copies the first of the outputs to `out`.
    pub fn run_into(&mut self, inputs: &[&Tensor], out: &mut [Tensor]) -> Result<()> {
        if out.len() > self.predictor.0.outputs.len() {
            return Err(Error::invalid(format!("{} outputs, there are fewer", out.len())));
        }
        let mut places: Vec<_> = out.iter().map(|tensor| tensor.0.get()).collect();
        self.run_to(inputs, &mut places)
    }

    /// Times every node of a prediction of this batch size.
    pub fn profile(&mut self, batch: i64, repeats: i32) -> Result<Report> {
        report(|out, e| unsafe {
            sys::assay_slot_profile(self.handle.get(), batch, repeats, out, e)
        })
    }
}
