use crate::handle::to_string;
use assay_sys as sys;
use std::os::raw::c_int;

/// What kind of error an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// An argument, a configuration value, or a call in the wrong state.
    Invalid,
    /// A correct request that this build or device cannot serve.
    Unsupported,
    /// Out of host memory, or over the context's limit.
    OutOfHostMemory,
    /// The same for device memory.
    OutOfDeviceMemory,
    /// The device or its driver failed.
    Device,
    /// The operating system, a writer or a reader refused an operation.
    Io,
    /// A file or text is malformed, truncated or damaged.
    Format,
    /// A file of a version unknown here.
    Version,
    /// No such file, model, variable or key.
    NotFound,
    /// In use by another thread.
    Busy,
    /// An interruption, or a progress function, stopped the call.
    Cancelled,
    /// Another rank has not come in time.
    Timeout,
    /// Another rank failed, left or brought something else.
    Comm,
    /// A function of the program gave what cannot be used.
    Callback,
    /// No deterministic kernel exists for what was asked.
    Nondeterministic,
    /// An earlier failure left this unusable: drop it.
    Poisoned,
    /// A mistake in the library: please report it.
    Internal,
    /// The loss or a gradient is NaN or infinite; nothing was updated.
    Nonfinite,
    /// A loader has no further batch; [`crate::Loader::next`] says `None`.
    EndOfData,
    /// One that this crate does not know.
    Other(i32),
}

const CODES: [(Code, c_int); 19] = [
    (Code::Invalid, sys::ASSAY_E_INVALID),
    (Code::Unsupported, sys::ASSAY_E_UNSUPPORTED),
    (Code::OutOfHostMemory, sys::ASSAY_E_OOM_HOST),
    (Code::OutOfDeviceMemory, sys::ASSAY_E_OOM_DEVICE),
    (Code::Device, sys::ASSAY_E_DEVICE),
    (Code::Io, sys::ASSAY_E_IO),
    (Code::Format, sys::ASSAY_E_FORMAT),
    (Code::Version, sys::ASSAY_E_VERSION),
    (Code::NotFound, sys::ASSAY_E_NOT_FOUND),
    (Code::Busy, sys::ASSAY_E_BUSY),
    (Code::Cancelled, sys::ASSAY_E_CANCELLED),
    (Code::Timeout, sys::ASSAY_E_TIMEOUT),
    (Code::Comm, sys::ASSAY_E_COMM),
    (Code::Callback, sys::ASSAY_E_CALLBACK),
    (Code::Nondeterministic, sys::ASSAY_E_NONDETERMINISTIC),
    (Code::Poisoned, sys::ASSAY_E_POISONED),
    (Code::Internal, sys::ASSAY_E_INTERNAL),
    (Code::Nonfinite, sys::ASSAY_E_NONFINITE),
    (Code::EndOfData, sys::ASSAY_E_END_OF_DATA),
];

impl Code {
    pub(crate) fn of(status: sys::assay_status) -> Code {
        let found = CODES.iter().find(|row| row.1 == status);
        found.map_or(Code::Other(status), |row| row.0)
    }

    fn status(self) -> sys::assay_status {
        match self {
            Code::Other(status) => status,
            code => CODES.iter().find(|row| row.0 == code).map_or(0, |row| row.1),
        }
    }
}

impl std::fmt::Display for Code {
    /// Its name in the headers: "not_found".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&unsafe { to_string(sys::assay_status_name(self.status())) })
    }
}

/// What every failing call returns: an [`ErrorInfo`]. What the operating system or a function of the
/// program said is its source, of which the text says nothing where it is the program's.
#[derive(Debug)]
pub struct Error(Box<ErrorInfo>);

/// An error taken apart.
#[derive(Debug)]
#[non_exhaustive]
pub struct ErrorInfo {
    /// Its kind.
    pub code: Code,
    /// One line: what was done, found and expected, and what to do.
    pub message: String,
    /// Whose number `native_code` is: `ASSAY_DOMAIN_*` of assay.h.
    pub domain: i32,
    /// What the operating system or a vendor's library said.
    pub native_code: i64,
    /// The same call may succeed later.
    pub retry: bool,
    /// What was used must be dropped.
    pub poisoned: bool,
    /// The layer, "layer2.0.conv1"; this and what follows is empty where it does not apply.
    pub op_path: String,
    /// The argument, or the path of the configuration's key: "optimizer.momentum".
    pub argument: String,
    /// `"f32[32,28,28,1]"`, `"a number in [0, 1)"`.
    pub expected: String,
    /// What was found instead.
    pub actual: String,
    /// What to do: "did you mean \"momentum\"?".
    pub hint: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What calls return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(code: Code, message: String) -> Error {
        Error(Box::new(ErrorInfo {
            code,
            message,
            domain: 0,
            native_code: 0,
            retry: false,
            poisoned: false,
            op_path: String::new(),
            argument: String::new(),
            expected: String::new(),
            actual: String::new(),
            hint: String::new(),
            source: None,
        }))
    }

    pub(crate) fn invalid(message: String) -> Error {
        Error::new(Code::Invalid, message)
    }

    /// With what the program said as its source.
    pub(crate) fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Takes over an error of the library.
    pub(crate) fn take(status: sys::assay_status, error: *mut sys::assay_error) -> Error {
        let mut info: sys::assay_error_info = unsafe { std::mem::zeroed() };
        info.struct_size = std::mem::size_of_val(&info);
        let mut made = Error::new(Code::of(status), String::new());
        let taken = &mut *made.0;
        unsafe {
            if sys::assay_error_get(error, &mut info) == 0 {
                taken.message = to_string(info.message);
                taken.domain = info.domain;
                taken.native_code = info.native_code;
                taken.retry = info.flags & sys::ASSAY_ERROR_RETRY as u32 != 0;
                taken.poisoned = info.flags & sys::ASSAY_ERROR_POISONED as u32 != 0;
                taken.op_path = to_string(info.op_path);
                taken.argument = to_string(info.argument);
                taken.expected = to_string(info.expected);
                taken.actual = to_string(info.actual);
                taken.hint = to_string(info.hint);
            } else {
                taken.message = to_string(sys::assay_status_name(status));
            }
            sys::assay_error_free(error);
        }
        if taken.domain == sys::ASSAY_DOMAIN_ERRNO {
            let number = taken.native_code as i32;
            taken.source = Some(std::io::Error::from_raw_os_error(number).into());
        }
        made
    }
}

impl std::ops::Deref for Error {
    type Target = ErrorInfo;
    fn deref(&self) -> &ErrorInfo {
        &self.0
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}
