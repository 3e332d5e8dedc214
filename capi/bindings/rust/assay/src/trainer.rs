use crate::handle::{bytes, call, lend, lock, make, report, zeroed, Handle, Interrupter};
use crate::tensor::pointers;
use crate::{Comm, Model, Report, Result, Tensor};
use assay_sys as sys;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// How a trainer computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32 throughout.
    Fp32 = sys::ASSAY_PRECISION_FP32 as isize,
    /// f32; matrix units may round operands (GPU).
    Tf32 = sys::ASSAY_PRECISION_TF32 as isize,
    /// f16 matrix operands, f32 masters, loss scaling (GPU).
    AmpFp16 = sys::ASSAY_PRECISION_AMP_FP16 as isize,
    /// bf16 matrix operands, f32 masters.
    AmpBf16 = sys::ASSAY_PRECISION_AMP_BF16 as isize,
}

/// The settings of most programs. The default leaves each to `config`, where it may be given as well;
/// twice is an error.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrainerOptions<'a> {
    /// Samples of a training batch.
    pub batch_size: i64,
    /// 0: the same.
    pub eval_batch_size: i64,
    /// Batches averaged into one update; 0: 1.
    pub accumulate: i64,
    /// Of first weights and dropout.
    pub seed: u64,
    /// At schedule factor 1.
    pub learning_rate: f64,
    /// `None`: f32.
    pub precision: Option<Precision>,
    /// The other devices that train with this one.
    pub comm: Option<&'a Comm>,
    /// "Configuration of a trainer" in assay.h.
    pub config: &'a str,
}

/// What a training step did.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepInfo {
    /// Updates done or skipped, this one included.
    pub step: i64,
    /// Batches since the last update.
    pub micro_step: i64,
    /// Training samples seen since step 0.
    pub samples: i64,
    /// Mean over the batch.
    pub loss: f64,
    /// Before clipping; 0 without an update.
    pub grad_norm: f64,
    /// Of this step.
    pub loss_scale: f64,
    /// Of this update.
    pub learning_rate: f64,
    /// Wall time of the call.
    pub seconds: f64,
    /// The weights changed.
    pub updated: bool,
    /// Dynamic loss scaling met a NaN or infinity: nothing was updated.
    pub skipped_nonfinite: bool,
}

/// What an evaluation of one batch counted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct EvalInfo {
    /// Rows that are no padding.
    pub samples: i64,
    /// Over these rows.
    pub loss_sum: f64,
    /// How many were classified right; 0 of models without an output of this name.
    pub top1: f64,
    /// Or among the five best.
    pub top5: f64,
    /// Wall time of the call.
    pub seconds: f64,
}

/// The metadata that holds the position of a loader: [`crate::Loader::cursor`].
pub const CURSOR: &str = "assay.cursor";

/// Trains a model, which has one at a time.
#[derive(Debug)]
pub struct Trainer {
    pub(crate) handle: Arc<Handle<sys::assay_trainer>>,
    /// With a channel: who uses it.
    turn: Option<Arc<Mutex<()>>>,
}

type Take = unsafe extern "C" fn(
    *mut sys::assay_trainer,
    *const *const sys::assay_tensor,
    usize,
    *mut sys::assay_step_info,
    *mut *mut sys::assay_error,
) -> sys::assay_status;

fn wait_for(turn: &Option<Arc<Mutex<()>>>) -> Option<MutexGuard<'_, ()>> {
    turn.as_deref().map(lock)
}

impl Trainer {
    /// A trainer at step 0.
    pub fn new(model: &mut Model, options: &TrainerOptions) -> Result<Trainer> {
        let mut c = zeroed!(assay_trainer_options);
        c.batch_size = options.batch_size;
        c.eval_batch_size = options.eval_batch_size;
        c.accumulate = options.accumulate;
        c.seed = options.seed;
        c.learning_rate = options.learning_rate;
        c.precision = options.precision.map_or(0, |p| p as i32);
        c.comm = options.comm.map_or(std::ptr::null_mut(), |comm| comm.handle.get());
        let turn = options.comm.map(|comm| comm.turn.clone());
        let handle = {
            let _turn = wait_for(&turn);
            make(sys::assay_trainer_free, model.0.host.as_ref(), |out, e| unsafe {
                sys::assay_trainer_create(model.0.get(), &c, lend(options.config), out, e)
            })?
        };
        Ok(Trainer { handle: Arc::new(handle), turn })
    }

    pub(crate) fn get(&self) -> *mut sys::assay_trainer {
        self.handle.get()
    }

    /// Waits until nothing else talks to the other ranks, if there are any: they could not tell two calls
    /// apart.
    pub(crate) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        wait_for(&self.turn)
    }

    /// Stops this trainer's steps and evaluations from other threads.
    pub fn interrupter(&self) -> Interrupter {
        let handle: Weak<Handle<sys::assay_trainer>> = Arc::downgrade(&self.handle);
        Interrupter(handle)
    }

    fn run(
        &mut self,
        f: impl FnOnce(&mut sys::assay_step_info, *mut *mut sys::assay_error) -> sys::assay_status,
    ) -> Result<StepInfo> {
        let mut i = zeroed!(assay_step_info);
        let _turn = self.turn();
        call(|e| f(&mut i, e))?;
        Ok(StepInfo {
            step: i.step,
            micro_step: i.micro_step,
            samples: i.samples,
            loss: i.loss,
            grad_norm: i.grad_norm,
            loss_scale: i.loss_scale,
            learning_rate: i.learning_rate,
            seconds: i.seconds,
            updated: i.flags & sys::ASSAY_STEP_UPDATED as u32 != 0,
            skipped_nonfinite: i.flags & sys::ASSAY_STEP_SKIPPED_NONFINITE as u32 != 0,
        })
    }

    fn take(&mut self, take: Take, batch: &[&Tensor]) -> Result<StepInfo> {
        let (trainer, batch) = (self.get(), pointers(batch));
        self.run(|info, e| unsafe { take(trainer, batch.as_ptr(), batch.len(), info, e) })
    }

    /// Hands over the batch of a later step, whose batch is then empty.
    pub fn prefetch(&mut self, batch: &[&Tensor]) -> Result<()> {
        let batch = pointers(batch);
        call(|e| unsafe { sys::assay_trainer_prefetch(self.get(), batch.as_ptr(), batch.len(), e) })
    }

    /// Trains on one batch, the model's inputs in their order; empty: the oldest prefetched one.
    pub fn step(&mut self, batch: &[&Tensor]) -> Result<StepInfo> {
        self.take(sys::assay_trainer_step, batch)
    }

    /// The first half of a step: gradients of one batch, added to those since the last update.
    pub fn backward(&mut self, batch: &[&Tensor]) -> Result<StepInfo> {
        self.take(sys::assay_trainer_backward, batch)
    }

    /// The second half: the update from the gradients, which may have been edited
    /// ([`Model::tensor`]).
    pub fn apply(&mut self) -> Result<StepInfo> {
        let trainer = self.get();
        self.run(|info, e| unsafe { sys::assay_trainer_apply(trainer, info, e) })
    }

    /// Evaluates one batch and changes nothing. `ema`: with the moving averages.
    pub fn eval(&mut self, batch: &[&Tensor], ema: bool) -> Result<EvalInfo> {
        let flags = if ema { sys::ASSAY_EVAL_EMA as u32 } else { 0 };
        let batch = pointers(batch);
        let mut i = zeroed!(assay_eval_info);
        let _turn = self.turn();
        call(|e| unsafe {
            let (first, n) = (batch.as_ptr(), batch.len());
            sys::assay_trainer_eval(self.get(), first, n, flags, &mut i, e)
        })?;
        Ok(EvalInfo {
            samples: i.samples,
            loss_sum: i.loss_sum,
            top1: i.top1,
            top5: i.top5,
            seconds: i.seconds,
        })
    }

    /// A number that the model computed for the last batch trained or evaluated.
    pub fn scalar(&mut self, name: &str) -> Result<f64> {
        let mut value = 0.0;
        call(|e| unsafe { sys::assay_trainer_scalar(self.get(), lend(name), &mut value, e) })?;
        Ok(value)
    }

    /// A copy of a tensor that the model computed for the batch evaluated last.
    pub fn output(&mut self, name: &str) -> Result<Tensor> {
        make(sys::assay_tensor_release, self.handle.host.as_ref(), |out, e| unsafe {
            sys::assay_trainer_output(self.get(), lend(name), out, e)
        })
        .map(Tensor)
    }

    /// Changes a setting between steps: "learning_rate", "loss_scale".
    pub fn set(&mut self, key: &str, value: f64) -> Result<()> {
        call(|e| unsafe { sys::assay_trainer_set(self.get(), lend(key), value, e) })
    }

    /// Attaches a text, or under [`CURSOR`] any bytes, which checkpoints carry. `None` removes it.
    pub fn set_metadata(&mut self, key: &str, value: Option<&[u8]>) -> Result<()> {
        let nothing = sys::assay_str { data: std::ptr::null(), size: 0 };
        let value = value.map_or(nothing, lend);
        call(|e| unsafe { sys::assay_trainer_set_metadata(self.get(), lend(key), value, e) })
    }

    /// What [`Trainer::set_metadata`] or a checkpoint attached.
    pub fn metadata(&self, key: &str) -> Result<Vec<u8>> {
        let mut value = sys::assay_str { data: std::ptr::null(), size: 0 };
        call(|e| unsafe { sys::assay_trainer_get_metadata(self.get(), lend(key), &mut value, e) })?;
        Ok(unsafe { bytes(value) }.to_vec())
    }

    /// How training is done and where it stands.
    pub fn report(&mut self) -> Result<Report> {
        report(|out, e| unsafe { sys::assay_trainer_report(self.get(), out, e) })
    }

    /// Times every node of the training step, each time the median of so many repeats.
    pub fn profile(&mut self, repeats: i32) -> Result<Report> {
        let _turn = self.turn();
        report(|out, e| unsafe { sys::assay_trainer_profile(self.get(), repeats, out, e) })
    }
}
