//! libassay's C interface as it stands in assay.h, assay_data.h, assay_graph.h and assay_comm.h, which
//! say what everything means. The crate `assay` is the safe way to use it.
//!
//! `tests/headers.rs` compares every name, type, value and layout with the headers.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int as C, c_void};

/// A type that only the library knows.
macro_rules! opaque {
    ($name:ident) => {
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
            _not_send_sync_unpin: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    };
}

pub const ASSAY_ABI_VERSION: u32 = 1 << 16;

// ---- assay.h ----
pub type assay_status = i32;
pub const ASSAY_OK: C = 0;
pub const ASSAY_E_INVALID: C = -1;
pub const ASSAY_E_UNSUPPORTED: C = -2;
pub const ASSAY_E_OOM_HOST: C = -3;
pub const ASSAY_E_OOM_DEVICE: C = -4;
pub const ASSAY_E_DEVICE: C = -5;
pub const ASSAY_E_IO: C = -6;
pub const ASSAY_E_FORMAT: C = -7;
pub const ASSAY_E_VERSION: C = -8;
pub const ASSAY_E_NOT_FOUND: C = -9;
pub const ASSAY_E_BUSY: C = -10;
pub const ASSAY_E_CANCELLED: C = -11;
pub const ASSAY_E_TIMEOUT: C = -12;
pub const ASSAY_E_COMM: C = -13;
pub const ASSAY_E_CALLBACK: C = -14;
pub const ASSAY_E_NONDETERMINISTIC: C = -15;
pub const ASSAY_E_POISONED: C = -16;
pub const ASSAY_E_INTERNAL: C = -17;
pub const ASSAY_E_NONFINITE: C = -18;
pub const ASSAY_E_END_OF_DATA: C = -19;
opaque!(assay_error);
opaque!(assay_context);
opaque!(assay_tensor);
opaque!(assay_model);
opaque!(assay_trainer);
opaque!(assay_predictor);
opaque!(assay_slot);
opaque!(assay_report);
opaque!(assay_comm);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_str {
    pub data: *const c_char,
    pub size: usize,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_ext {
    pub id: u32,
    pub flags: u32,
    pub struct_size: usize,
    pub next: *const assay_ext,
}
pub const ASSAY_ERROR_RETRY: C = 1;
pub const ASSAY_ERROR_POISONED: C = 2;
pub const ASSAY_ERROR_CALLER: C = 4;
pub const ASSAY_DOMAIN_NONE: C = 0;
pub const ASSAY_DOMAIN_ERRNO: C = 1;
pub const ASSAY_DOMAIN_ONEDNN: C = 2;
pub const ASSAY_DOMAIN_CUDA: C = 3;
pub const ASSAY_DOMAIN_CUDNN: C = 4;
pub const ASSAY_DOMAIN_CUBLAS: C = 5;
pub const ASSAY_DOMAIN_NCCL: C = 6;
pub const ASSAY_DOMAIN_MPI: C = 7;
pub const ASSAY_DOMAIN_HOST: C = 8;
pub const ASSAY_DOMAIN_ZIP: C = 9;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_error_info {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub code: assay_status,
    pub domain: i32,
    pub native_code: i64,
    pub flags: u32,
    pub reserved: u32,
    pub message: assay_str,
    pub op_path: assay_str,
    pub argument: assay_str,
    pub expected: assay_str,
    pub actual: assay_str,
    pub hint: assay_str,
}
pub const ASSAY_DEVICE_CPU: C = 0;
pub const ASSAY_DEVICE_CUDA: C = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_device_id {
    pub kind: i32,
    pub index: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_device_info {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub id: assay_device_id,
    pub name: assay_str,
    pub driver: assay_str,
    pub unavailable_reason: assay_str,
    pub mem_total: u64,
    pub mem_free: u64,
    pub n_threads: i32,
    pub reserved: i32,
}
pub const ASSAY_LOG_ERROR: C = 1;
pub const ASSAY_LOG_WARNING: C = 2;
pub const ASSAY_LOG_INFO: C = 3;
pub const ASSAY_LOG_DEBUG: C = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_picture {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub height: i32,
    pub width: i32,
    pub channels: i32,
    pub bits: i32,
    pub row_bytes: i64,
    pub data: *const c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_host {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub user: usize,
    pub log: Option<
        unsafe extern "C" fn(user: usize, level: i32, component: assay_str, text: assay_str),
    >,
    pub read_image: Option<
        unsafe extern "C" fn(
            user: usize,
            file: *const c_void,
            size: usize,
            give: Option<unsafe extern "C" fn(to: *mut c_void, page: *const assay_picture)>,
            to: *mut c_void,
        ) -> i32,
    >,
}
pub const ASSAY_DETERMINISM_ON: C = 1;
pub const ASSAY_DETERMINISM_OFF: C = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_context_options {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub n_threads: i32,
    pub log_level: i32,
    pub mem_limit: u64,
    pub determinism: i32,
    pub reserved: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_mem_stats {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub in_use: u64,
    pub peak: u64,
    pub limit: u64,
    pub blocks: u64,
}
pub type assay_dtype = i32;
pub const ASSAY_F32: C = 1;
pub const ASSAY_BF16: C = 2;
pub const ASSAY_F16: C = 3;
pub const ASSAY_F64: C = 4;
pub const ASSAY_I32: C = 5;
pub const ASSAY_I64: C = 6;
pub const ASSAY_U8: C = 7;
pub const ASSAY_MAX_NDIM: C = 8;
pub const ASSAY_TENSOR_READ_ONLY: C = 1;
pub const ASSAY_TENSOR_VIEW: C = 2;
opaque!(DLManagedTensorVersioned);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_tensor_info {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub dtype: assay_dtype,
    pub ndim: i32,
    pub device: assay_device_id,
    pub shape: *const i64,
    pub bytes: u64,
    pub data: *mut c_void,
    pub flags: u32,
    pub reserved: u32,
}
pub const ASSAY_MODE_TRAIN: C = 1;
pub const ASSAY_MODE_EVAL: C = 2;
pub const ASSAY_MODE_PREDICT: C = 3;
pub const ASSAY_KIND_VALUE: C = 1;
pub const ASSAY_KIND_GRADIENT: C = 2;
pub const ASSAY_KIND_MOMENT1: C = 3;
pub const ASSAY_KIND_MOMENT2: C = 4;
pub const ASSAY_KIND_EMA: C = 5;
pub const ASSAY_KIND_STATISTIC: C = 6;
pub const ASSAY_WEIGHTS_PARTIAL: C = 1;
pub const ASSAY_PRECISION_FP32: C = 1;
pub const ASSAY_PRECISION_TF32: C = 2;
pub const ASSAY_PRECISION_AMP_FP16: C = 3;
pub const ASSAY_PRECISION_AMP_BF16: C = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_trainer_options {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub batch_size: i64,
    pub eval_batch_size: i64,
    pub accumulate: i64,
    pub seed: u64,
    pub learning_rate: f64,
    pub precision: i32,
    pub reserved: i32,
    pub comm: *mut assay_comm,
}
pub const ASSAY_STEP_UPDATED: C = 1;
pub const ASSAY_STEP_SKIPPED_NONFINITE: C = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_step_info {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub step: i64,
    pub micro_step: i64,
    pub samples: i64,
    pub loss: f64,
    pub grad_norm: f64,
    pub loss_scale: f64,
    pub learning_rate: f64,
    pub seconds: f64,
    pub flags: u32,
    pub reserved: u32,
}
pub const ASSAY_EVAL_EMA: C = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_eval_info {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub samples: i64,
    pub loss_sum: f64,
    pub top1: f64,
    pub top5: f64,
    pub seconds: f64,
}
pub const ASSAY_PART_WEIGHTS: C = 1;
pub const ASSAY_PART_MOMENTS: C = 2;
pub const ASSAY_PART_EMA: C = 4;
pub const ASSAY_PART_STATISTICS: C = 8;
pub const ASSAY_PART_TRAINER_STATE: C = 16;
pub const ASSAY_PART_ALL: C = 31;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_io {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub user: usize,
    pub write: Option<unsafe extern "C" fn(user: usize, src: *const c_void, size: usize) -> i32>,
    pub commit: Option<unsafe extern "C" fn(user: usize) -> i32>,
    pub discard: Option<unsafe extern "C" fn(user: usize)>,
    pub read: Option<
        unsafe extern "C" fn(user: usize, dst: *mut c_void, size: usize, offset: u64) -> i32,
    >,
    pub size: u64,
}

extern "C" {
    pub fn assay_abi_version() -> u32;
    pub fn assay_version_string() -> assay_str;
    pub fn assay_status_name(status: assay_status) -> assay_str;
    pub fn assay_error_get(e: *const assay_error, out: *mut assay_error_info) -> assay_status;
    pub fn assay_error_free(e: *mut assay_error);
    pub fn assay_report_text(r: *const assay_report) -> assay_str;
    pub fn assay_report_free(r: *mut assay_report);
    pub fn assay_device_enum(
        index: usize,
        out: *mut assay_device_info,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_context_create(
        options: *const assay_context_options,
        host: *const assay_host,
        devices: *const assay_device_id,
        n_devices: usize,
        out: *mut *mut assay_context,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_context_interrupt(c: *const assay_context) -> assay_status;
    pub fn assay_context_mem_stats(
        c: *const assay_context,
        device: assay_device_id,
        out: *mut assay_mem_stats,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_env_report(
        c: *const assay_context,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_context_free(c: *mut assay_context);
    pub fn assay_tensor_new(
        c: *const assay_context,
        device: assay_device_id,
        dtype: assay_dtype,
        shape: *const i64,
        ndim: i32,
        out: *mut *mut assay_tensor,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_tensor_borrow(
        c: *const assay_context,
        data: *mut c_void,
        bytes: usize,
        dtype: assay_dtype,
        shape: *const i64,
        ndim: i32,
        release: Option<unsafe extern "C" fn(user: usize)>,
        user: usize,
        out: *mut *mut assay_tensor,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_tensor_get_info(
        t: *const assay_tensor,
        out: *mut assay_tensor_info,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_tensor_read(
        t: *const assay_tensor,
        dst: *mut c_void,
        bytes: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_tensor_write(
        t: *mut assay_tensor,
        src: *const c_void,
        bytes: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_tensor_retain(t: *const assay_tensor) -> *mut assay_tensor;
    pub fn assay_tensor_release(t: *mut assay_tensor);
    pub fn assay_tensor_to_dlpack(
        t: *const assay_tensor,
        out: *mut *mut DLManagedTensorVersioned,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_tensor_from_dlpack(
        c: *const assay_context,
        dl: *mut DLManagedTensorVersioned,
        out: *mut *mut assay_tensor,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_list(
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_named(
        c: *const assay_context,
        arch: assay_str,
        config_json: assay_str,
        out: *mut *mut assay_model,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_open(
        c: *const assay_context,
        path: assay_str,
        out: *mut *mut assay_model,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_report(
        m: *const assay_model,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_check(
        m: *const assay_model,
        device: assay_device_id,
        mode: i32,
        config_json: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_initialize(
        m: *mut assay_model,
        seed: u64,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_tensor(
        m: *const assay_model,
        name: assay_str,
        kind: i32,
        out: *mut *mut assay_tensor,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_load_weights(
        m: *mut assay_model,
        path: assay_str,
        format: assay_str,
        map_json: assay_str,
        flags: u32,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_save_weights(
        m: *const assay_model,
        path: assay_str,
        format: assay_str,
        map_json: assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_free(m: *mut assay_model);
    pub fn assay_trainer_create(
        m: *mut assay_model,
        options: *const assay_trainer_options,
        config_json: assay_str,
        out: *mut *mut assay_trainer,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_prefetch(
        t: *mut assay_trainer,
        batch: *const *const assay_tensor,
        n: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_step(
        t: *mut assay_trainer,
        batch: *const *const assay_tensor,
        n: usize,
        info: *mut assay_step_info,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_backward(
        t: *mut assay_trainer,
        batch: *const *const assay_tensor,
        n: usize,
        info: *mut assay_step_info,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_apply(
        t: *mut assay_trainer,
        info: *mut assay_step_info,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_eval(
        t: *mut assay_trainer,
        batch: *const *const assay_tensor,
        n: usize,
        flags: u32,
        info: *mut assay_eval_info,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_interrupt(t: *const assay_trainer) -> assay_status;
    pub fn assay_trainer_scalar(
        t: *mut assay_trainer,
        name: assay_str,
        value: *mut f64,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_output(
        t: *mut assay_trainer,
        name: assay_str,
        out: *mut *mut assay_tensor,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_set(
        t: *mut assay_trainer,
        key: assay_str,
        value: f64,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_set_metadata(
        t: *mut assay_trainer,
        key: assay_str,
        value: assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_get_metadata(
        t: *const assay_trainer,
        key: assay_str,
        value: *mut assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_report(
        t: *mut assay_trainer,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_profile(
        t: *mut assay_trainer,
        repeats: i32,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_trainer_free(t: *mut assay_trainer);
    pub fn assay_checkpoint_save(
        t: *const assay_trainer,
        path: assay_str,
        parts: u32,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_load(
        t: *mut assay_trainer,
        path: assay_str,
        parts: u32,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_save_io(
        t: *const assay_trainer,
        io: *const assay_io,
        parts: u32,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_load_io(
        t: *mut assay_trainer,
        io: *const assay_io,
        parts: u32,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_model_open_io(
        c: *const assay_context,
        io: *const assay_io,
        out: *mut *mut assay_model,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_inspect_io(
        io: *const assay_io,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_inspect(
        path: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_verify(
        path: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_diff(
        a: assay_str,
        b: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_checkpoint_convert(
        from: assay_str,
        to: assay_str,
        format: assay_str,
        map_json: assay_str,
        kind: i32,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_predictor_create(
        m: *const assay_model,
        config_json: assay_str,
        out: *mut *mut assay_predictor,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_predictor_report(
        p: *const assay_predictor,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_predictor_export(
        p: *const assay_predictor,
        path: assay_str,
        format: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_slot_create(
        p: *const assay_predictor,
        out: *mut *mut assay_slot,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_slot_prepare(
        slot: *mut assay_slot,
        batch: i64,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_predictor_run(
        p: *const assay_predictor,
        slot: *mut assay_slot,
        in_: *const *const assay_tensor,
        n_in: usize,
        out: *mut *mut assay_tensor,
        n_out: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_slot_interrupt(slot: *const assay_slot) -> assay_status;
    pub fn assay_slot_profile(
        slot: *mut assay_slot,
        batch: i64,
        repeats: i32,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_slot_free(slot: *mut assay_slot);
    pub fn assay_predictor_free(p: *mut assay_predictor);
}

// ---- assay_data.h ----
opaque!(assay_loader);
opaque!(assay_text);
opaque!(assay_text_question);
opaque!(assay_text_squad);
opaque!(assay_detections);
pub type assay_progress =
    Option<unsafe extern "C" fn(user: usize, phase: assay_str, done: i64, total: i64) -> i32>;
pub type assay_give = Option<
    unsafe extern "C" fn(
        to: *mut c_void,
        name: assay_str,
        dtype: assay_dtype,
        data: *const c_void,
        elements: usize,
    ),
>;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_samples {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub user: usize,
    pub count: i64,
    pub sample: Option<
        unsafe extern "C" fn(user: usize, index: i64, give: assay_give, to: *mut c_void) -> i32,
    >,
    pub release: Option<unsafe extern "C" fn(user: usize)>,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_batch_info {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub epoch: i64,
    pub batch: i64,
    pub rows: i64,
    pub valid: i64,
    pub wait_seconds: f64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_text_spans {
    pub struct_size: usize,
    pub next: *const assay_ext,
    pub windows: i64,
    pub starts: i64,
    pub ends: i64,
    pub start: *const i32,
    pub start_log_prob: *const f32,
    pub end: *const i32,
    pub end_log_prob: *const f32,
    pub class_logit: *const f32,
}

extern "C" {
    pub fn assay_dataset_list(
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_dataset_convert(
        c: *const assay_context,
        name: assay_str,
        source: assay_str,
        target: assay_str,
        options_json: assay_str,
        progress: assay_progress,
        user: usize,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_dataset_report(
        folder: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_dataset_verify(
        c: *const assay_context,
        folder: assay_str,
        progress: assay_progress,
        user: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_dataset_export(
        c: *const assay_context,
        folder: assay_str,
        target: assay_str,
        options_json: assay_str,
        progress: assay_progress,
        user: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_create(
        c: *const assay_context,
        folder: assay_str,
        split: assay_str,
        config_json: assay_str,
        transform_json: assay_str,
        out: *mut *mut assay_loader,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_from_samples(
        c: *const assay_context,
        samples: *const assay_samples,
        sample_json: assay_str,
        config_json: assay_str,
        transform_json: assay_str,
        out: *mut *mut assay_loader,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_next(
        l: *mut assay_loader,
        batch: *mut *const assay_tensor,
        n: usize,
        info: *mut assay_batch_info,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_interrupt(l: *const assay_loader) -> assay_status;
    pub fn assay_loader_cursor(
        l: *const assay_loader,
        dst: *mut c_void,
        capacity: usize,
        size: *mut usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_restore(
        l: *mut assay_loader,
        src: *const c_void,
        size: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_seek(
        l: *mut assay_loader,
        epoch: i64,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_report(
        l: *const assay_loader,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_loader_free(l: *mut assay_loader);
    pub fn assay_text_create(
        path: assay_str,
        config_json: assay_str,
        out: *mut *mut assay_text,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_parse(
        vocabulary: assay_str,
        config_json: assay_str,
        out: *mut *mut assay_text,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_vocabulary(
        t: *const assay_text,
        out: *mut assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_attach(
        t: *const assay_text,
        trainer: *mut assay_trainer,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_tokenize(
        t: *const assay_text,
        text: assay_str,
        ids: *mut i32,
        begin: *mut i64,
        end: *mut i64,
        capacity: usize,
        count: *mut usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_free(t: *mut assay_text);
    pub fn assay_text_question_create(
        t: *const assay_text,
        question: assay_str,
        paragraph: assay_str,
        config_json: assay_str,
        out: *mut *mut assay_text_question,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_question_size(
        q: *const assay_text_question,
        windows: *mut i64,
        length: *mut i64,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_question_read(
        q: *const assay_text_question,
        window: i64,
        ids: *mut i32,
        types: *mut i32,
        length: *mut i32,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_question_answer(
        q: *const assay_text_question,
        start: *const f32,
        end: *const f32,
        n: usize,
        config_json: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_question_answer_spans(
        q: *const assay_text_question,
        spans: *const assay_text_spans,
        config_json: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_question_free(q: *mut assay_text_question);
    pub fn assay_text_squad_open(
        path: assay_str,
        out: *mut *mut assay_text_squad,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_squad_size(
        s: *const assay_text_squad,
        questions: *mut i64,
        version: *mut i32,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_squad_question(
        s: *const assay_text_squad,
        index: i64,
        t: *const assay_text,
        config_json: assay_str,
        out: *mut *mut assay_text_question,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_squad_answer(
        s: *mut assay_text_squad,
        index: i64,
        answer: assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_squad_save(
        s: *const assay_text_squad,
        path: assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_text_squad_free(s: *mut assay_text_squad);
    pub fn assay_text_score(
        file: assay_str,
        predictions: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_detections_create(
        out: *mut *mut assay_detections,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_detections_open(
        path: assay_str,
        out: *mut *mut assay_detections,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_detections_add(
        d: *mut assay_detections,
        image_id: i64,
        scale: f32,
        boxes: *const f32,
        scores: *const f32,
        classes: *const i32,
        n: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_detections_size(
        d: *const assay_detections,
        images: *mut i64,
        detections: *mut i64,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_detections_save(
        d: *const assay_detections,
        path: assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_detections_score(
        d: *const assay_detections,
        instances: assay_str,
        config_json: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_detections_free(d: *mut assay_detections);
}

// ---- assay_graph.h ----
opaque!(assay_graph);
pub type assay_value = u64;

extern "C" {
    pub fn assay_graph_create(
        c: *const assay_context,
        name: assay_str,
        out: *mut *mut assay_graph,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_graph_input(
        g: *mut assay_graph,
        name: assay_str,
        attributes_json: assay_str,
        out: *mut assay_value,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_graph_layer(
        g: *mut assay_graph,
        kind: assay_str,
        name: assay_str,
        attributes_json: assay_str,
        in_: *const assay_value,
        n_in: usize,
        out: *mut assay_value,
        n_out: usize,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_graph_output(
        g: *mut assay_graph,
        name: assay_str,
        value: assay_value,
        weight: assay_value,
        attributes_json: assay_str,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_graph_report(
        g: *const assay_graph,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_graph_finish(
        g: *mut assay_graph,
        out: *mut *mut assay_model,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_graph_free(g: *mut assay_graph);
}

// ---- assay_comm.h ----
#[repr(C)]
#[derive(Clone, Copy)]
pub struct assay_comm_id {
    pub bytes: [u8; 128],
}

extern "C" {
    pub fn assay_comm_new_id(
        kind: assay_str,
        out: *mut assay_comm_id,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_comm_create(
        c: *const assay_context,
        id: *const assay_comm_id,
        rank: i32,
        world: i32,
        timeout_ns: i64,
        out: *mut *mut assay_comm,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_comm_gather(
        comm: *mut assay_comm,
        mine: assay_str,
        out: *mut *mut assay_report,
        err: *mut *mut assay_error,
    ) -> assay_status;
    pub fn assay_comm_abort(comm: *const assay_comm, err: *mut *mut assay_error) -> assay_status;
    pub fn assay_comm_free(comm: *mut assay_comm);
}
