use crate::handle::{call, lend, lend_path, make, report, Handle};
use crate::{Context, DeviceId, Report, Result, Tensor};
use assay_sys as sys;
use std::path::Path;

/// The architectures that [`Model::named`] knows.
pub fn models() -> Result<Report> {
    report(|out, e| unsafe { sys::assay_model_list(out, e) })
}

/// What [`Model::check`] plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Mode {
    Train = sys::ASSAY_MODE_TRAIN as isize,
    Eval = sys::ASSAY_MODE_EVAL as isize,
    Predict = sys::ASSAY_MODE_PREDICT as isize,
}

/// Which tensor of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The weight.
    Value = sys::ASSAY_KIND_VALUE as isize,
    /// Of the last backward or step.
    Gradient = sys::ASSAY_KIND_GRADIENT as isize,
    /// Of the optimizer.
    Moment1 = sys::ASSAY_KIND_MOMENT1 as isize,
    /// Adam's v.
    Moment2 = sys::ASSAY_KIND_MOMENT2 as isize,
    /// Moving average.
    Ema = sys::ASSAY_KIND_EMA as isize,
    /// Running mean or variance.
    Statistic = sys::ASSAY_KIND_STATISTIC as isize,
}

/// A network, with or without weights.
#[derive(Debug)]
pub struct Model(pub(crate) Handle<sys::assay_model>);

impl Model {
    /// A model by name, without weights; "Configurations of models" in assay.h.
    pub fn named(context: &Context, architecture: &str, config: &str) -> Result<Model> {
        make(sys::assay_model_free, context.0.host.as_ref(), |out, e| unsafe {
            sys::assay_model_named(context.0.get(), lend(architecture), lend(config), out, e)
        })
        .map(Model)
    }

    /// The model that a checkpoint holds, with its weights.
    pub fn open(context: &Context, path: impl AsRef<Path>) -> Result<Model> {
        let path = lend_path(path.as_ref());
        make(sys::assay_model_free, context.0.host.as_ref(), |out, e| unsafe {
            sys::assay_model_open(context.0.get(), path, out, e)
        })
        .map(Model)
    }

    /// Describes the model: inputs, variables, configuration.
    pub fn report(&self) -> Result<Report> {
        report(|out, e| unsafe { sys::assay_model_report(self.0.get(), out, e) })
    }

    /// Whether training or predicting with this configuration would work on the device, and what it
    /// would take, before any memory is taken.
    pub fn check(&self, device: DeviceId, mode: Mode, config: &str) -> Result<Report> {
        report(|out, e| unsafe {
            sys::assay_model_check(self.0.get(), device.to_c(), mode as i32, lend(config), out, e)
        })
    }

    /// Draws the first weights from the seed.
    pub fn initialize(&mut self, seed: u64) -> Result<()> {
        call(|e| unsafe { sys::assay_model_initialize(self.0.get(), seed, e) })
    }

    /// A tensor of the model by name, without a copy: reads give the present numbers, writes change
    /// what is trained.
    pub fn tensor(&self, name: &str, kind: Kind) -> Result<Tensor> {
        make(sys::assay_tensor_release, self.0.host.as_ref(), |out, e| unsafe {
            sys::assay_model_tensor(self.0.get(), lend(name), kind as i32, out, e)
        })
        .map(Tensor)
    }

    /// Loads a "safetensors" or "checkpoint" file into a model that has no trainer. `partial` loads
    /// what fits and reports the rest. `map` says how names and layouts map, empty: they are ours, and
    /// which variables are kept. assay_model_load_weights in assay.h says of which format a file may be
    /// for these two; [`crate::convert_checkpoint`] makes "safetensors" of a checkpoint.
    pub fn load_weights(
        &mut self,
        path: impl AsRef<Path>,
        format: &str,
        map: &str,
        partial: bool,
    ) -> Result<Report> {
        let flags = if partial { sys::ASSAY_WEIGHTS_PARTIAL as u32 } else { 0 };
        let (path, format, map) = (lend_path(path.as_ref()), lend(format), lend(map));
        report(|out, e| unsafe {
            sys::assay_model_load_weights(self.0.get(), path, format, map, flags, out, e)
        })
    }

    /// Writes weights and statistics as "safetensors", whole and durable or not at all.
    pub fn save_weights(&self, path: impl AsRef<Path>, format: &str, map: &str) -> Result<()> {
        let (path, format, map) = (lend_path(path.as_ref()), lend(format), lend(map));
        call(|e| unsafe { sys::assay_model_save_weights(self.0.get(), path, format, map, e) })
    }
}
