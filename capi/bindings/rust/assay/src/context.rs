use crate::handle::{call, make, report, to_string, zeroed, Handle};
use crate::host::{self, Host, Picture};
use crate::{Code, Report, Result};
use assay_sys as sys;
use std::sync::Arc;

/// Names a device. The default is the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceId {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    Cuda(i32),
}

impl DeviceId {
    pub(crate) fn to_c(self) -> sys::assay_device_id {
        match self {
            DeviceId::Cpu => sys::assay_device_id { kind: sys::ASSAY_DEVICE_CPU, index: 0 },
            DeviceId::Cuda(index) => sys::assay_device_id { kind: sys::ASSAY_DEVICE_CUDA, index },
        }
    }

    pub(crate) fn of(id: sys::assay_device_id) -> DeviceId {
        if id.kind == sys::ASSAY_DEVICE_CUDA {
            DeviceId::Cuda(id.index)
        } else {
            DeviceId::Cpu
        }
    }
}

/// What the library knows of a device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Device {
    /// Its name in options.
    pub id: DeviceId,
    /// "AMD EPYC 9R14".
    pub name: String,
    /// "oneDNN 2.6.3".
    pub driver: String,
    /// Empty if contexts can be made on it.
    pub unavailable_reason: String,
    /// Bytes.
    pub mem_total: u64,
    /// Bytes, now; 0: not known.
    pub mem_free: u64,
    /// CPU: threads a context uses unless told otherwise.
    pub threads: i32,
}

/// All devices that the library knows of, usable or not. The CPU comes first.
pub fn devices() -> Result<Vec<Device>> {
    let mut all = vec![];
    loop {
        let mut info = zeroed!(assay_device_info);
        match call(|e| unsafe { sys::assay_device_enum(all.len(), &mut info, e) }) {
            Err(e) if e.code == Code::NotFound => return Ok(all),
            result => result?,
        }
        all.push(unsafe {
            Device {
                id: DeviceId::of(info.id),
                name: to_string(info.name),
                driver: to_string(info.driver),
                unavailable_reason: to_string(info.unavailable_reason),
                mem_total: info.mem_total,
                mem_free: info.mem_free,
                threads: info.n_threads,
            }
        });
    }
}

/// The importance of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum LogLevel {
    Error = sys::ASSAY_LOG_ERROR as isize,
    Warning = sys::ASSAY_LOG_WARNING as isize,
    Info = sys::ASSAY_LOG_INFO as isize,
    Debug = sys::ASSAY_LOG_DEBUG as isize,
}

impl LogLevel {
    pub(crate) fn of(level: i32) -> LogLevel {
        match level {
            sys::ASSAY_LOG_ERROR => LogLevel::Error,
            sys::ASSAY_LOG_WARNING => LogLevel::Warning,
            sys::ASSAY_LOG_INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        }
    }
}

/// All are optional.
#[derive(Default)]
pub struct ContextOptions {
    /// Where to compute.
    pub device: DeviceId,
    /// Per kernel; 0: as many as the process may use. Those that wait spin: beside other work set
    /// `OMP_WAIT_POLICY=passive`; small networks and servers of many threads are best with 1.
    pub threads: i32,
    /// Most bytes of all that is made with the context; 0: no limit.
    pub mem_limit: u64,
    /// CUDA: kernels whose sums depend on timing may be used.
    pub nondeterministic: bool,
    /// Takes level, component and one line for people, on any thread.
    #[allow(clippy::type_complexity)]
    pub log: Option<Box<dyn Fn(LogLevel, &str, &str) + Send + Sync>>,
    /// Least important level of the log; `None`: warnings.
    pub log_level: Option<LogLevel>,
    /// Decodes image files of other formats than JPEG, for conversions of data sets, on several threads
    /// at once. `None` leaves the file out.
    #[allow(clippy::type_complexity)]
    pub read_image: Option<Box<dyn Fn(&[u8]) -> Option<Vec<Picture>> + Send + Sync>>,
}

impl std::fmt::Debug for ContextOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextOptions")
            .field("device", &self.device)
            .field("threads", &self.threads)
            .field("mem_limit", &self.mem_limit)
            .field("nondeterministic", &self.nondeterministic)
            .field("log", &self.log.as_ref().map(|_| "a function"))
            .field("log_level", &self.log_level)
            .field("read_image", &self.read_image.as_ref().map(|_| "a function"))
            .finish()
    }
}

/// The memory of models, optimizer state, plans and tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemStats {
    /// Bytes held now.
    pub in_use: u64,
    /// The most there were.
    pub peak: u64,
    /// Of the options; 0: none.
    pub limit: u64,
    /// Number of blocks behind `in_use`.
    pub blocks: u64,
}

/// A device with its threads, for all that is made with it.
#[derive(Debug)]
pub struct Context(pub(crate) Handle<sys::assay_context>);

impl Context {
    /// Makes a context.
    pub fn new(options: ContextOptions) -> Result<Context> {
        let mut c = zeroed!(assay_context_options);
        c.n_threads = options.threads;
        c.log_level = options.log_level.map_or(0, |level| level as i32);
        c.mem_limit = options.mem_limit;
        if options.nondeterministic {
            c.determinism = sys::ASSAY_DETERMINISM_OFF;
        }
        let mut functions = zeroed!(assay_host);
        functions.log = options.log.as_ref().map(|_| host::log as _);
        functions.read_image = options.read_image.as_ref().map(|_| host::read_image as _);
        let host = Arc::new(Host { log: options.log, read_image: options.read_image });
        functions.user = Arc::as_ptr(&host) as usize;
        let device = options.device.to_c();
        make(sys::assay_context_free, Some(&host), |out, e| unsafe {
            sys::assay_context_create(&c, &functions, &device, 1, out, e)
        })
        .map(Context)
    }

    /// Stops every call that now runs with the context on other threads.
    pub fn interrupt(&self) {
        unsafe { sys::assay_context_interrupt(self.0.get()) };
    }

    /// What all objects of the context hold on its device.
    pub fn mem_stats(&self, device: DeviceId) -> Result<MemStats> {
        let mut s = zeroed!(assay_mem_stats);
        call(|e| unsafe { sys::assay_context_mem_stats(self.0.get(), device.to_c(), &mut s, e) })?;
        Ok(MemStats { in_use: s.in_use, peak: s.peak, limit: s.limit, blocks: s.blocks })
    }

    /// What results depend on besides their inputs: library and machine.
    pub fn environment(&self) -> Result<Report> {
        report(|out, e| unsafe { sys::assay_env_report(self.0.get(), out, e) })
    }
}
