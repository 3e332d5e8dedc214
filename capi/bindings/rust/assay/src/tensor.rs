use crate::handle::{call, make, zeroed, Handle};
use crate::{Code, Context, DeviceId, Error, Result};
use assay_sys as sys;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DType {
    F32,
    Bf16,
    F16,
    F64,
    I32,
    I64,
    U8,
}

impl DType {
    const ALL: [(DType, sys::assay_dtype, &'static str); 7] = [
        (DType::F32, sys::ASSAY_F32, "f32"),
        (DType::Bf16, sys::ASSAY_BF16, "bf16"),
        (DType::F16, sys::ASSAY_F16, "f16"),
        (DType::F64, sys::ASSAY_F64, "f64"),
        (DType::I32, sys::ASSAY_I32, "i32"),
        (DType::I64, sys::ASSAY_I64, "i64"),
        (DType::U8, sys::ASSAY_U8, "u8"),
    ];

    fn row(found: impl Fn(&(DType, sys::assay_dtype, &'static str)) -> bool) -> Result<DType> {
        let unknown = || Error::new(Code::Version, "a type of elements unknown here".into());
        DType::ALL.into_iter().find(found).map(|row| row.0).ok_or_else(unknown)
    }

    pub(crate) fn named(name: &str) -> Result<DType> {
        DType::row(|row| row.2 == name)
    }

    pub(crate) fn to_c(self) -> sys::assay_dtype {
        DType::ALL.iter().find(|row| row.0 == self).map_or(0, |row| row.1)
    }

    /// Its name in reports: "f32".
    pub fn name(self) -> &'static str {
        DType::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.2)
    }
}

/// The bits of an IEEE half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct F16(pub u16);

/// The upper half of the bits of an `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

mod sealed {
    pub trait Sealed {}
}

/// What tensors hold: numbers of which every pattern of bits is one.
pub trait Element: Copy + Default + Send + Sync + sealed::Sealed + 'static {
    /// Its type in a tensor.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty: $dtype:ident),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
elements!(f32: F32, Bf16: Bf16, F16: F16, f64: F64, i32: I32, i64: I64, u8: U8);

/// What a tensor is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Of its elements.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Vec<i64>,
    /// Where it lies.
    pub device: DeviceId,
    /// Of the elements.
    pub bytes: u64,
    /// [`Tensor::write`] is refused.
    pub read_only: bool,
    /// The memory belongs to a model, a slot or a loader.
    pub view: bool,
}

/// Dense and row-major: the last axis is contiguous. Images are `[batch, rows, columns, channels]`.
#[derive(Debug)]
pub struct Tensor(pub(crate) Handle<sys::assay_tensor>);

impl Tensor {
    /// A tensor of zeros in host memory.
    pub fn zeros(context: &Context, dtype: DType, shape: &[i64]) -> Result<Tensor> {
        make(sys::assay_tensor_release, context.0.host.as_ref(), |out, e| unsafe {
            let (sizes, rank) = (shape.as_ptr(), shape.len() as i32);
            let device = DeviceId::Cpu.to_c();
            sys::assay_tensor_new(context.0.get(), device, dtype.to_c(), sizes, rank, out, e)
        })
        .map(Tensor)
    }

    /// A tensor of these elements, without a copy.
    pub fn from_vec<T: Element>(context: &Context, data: Vec<T>, shape: &[i64]) -> Result<Tensor> {
        unsafe extern "C" fn release<T>(user: usize) {
            drop(unsafe { Box::from_raw(user as *mut Vec<T>) });
        }
        let numbers = shape.iter().try_fold(1, |n: i64, &m| n.checked_mul(m));
        if numbers != i64::try_from(data.len()).ok() {
            let message = format!("{} elements, not as many as {shape:?} has", data.len());
            return Err(Error::invalid(message));
        }
        let mut data = Box::new(data);
        let (first, bytes) = (data.as_mut_ptr().cast(), std::mem::size_of_val(&data[..]));
        let user = Box::into_raw(data);
        make(sys::assay_tensor_release, context.0.host.as_ref(), |out, e| unsafe {
            let (dtype, sizes, rank) = (T::DTYPE.to_c(), shape.as_ptr(), shape.len() as i32);
            let release = Some(release::<T> as unsafe extern "C" fn(usize));
            let status = sys::assay_tensor_borrow(
                context.0.get(),
                first,
                bytes,
                dtype,
                sizes,
                rank,
                release,
                user as usize,
                out,
                e,
            );
            if status != sys::ASSAY_OK {
                drop(Box::from_raw(user));
            }
            status
        })
        .map(Tensor)
    }

    fn c_info(&self) -> Result<sys::assay_tensor_info> {
        let mut info = zeroed!(assay_tensor_info);
        call(|e| unsafe { sys::assay_tensor_get_info(self.0.get(), &mut info, e) })?;
        Ok(info)
    }

    /// Describes the tensor.
    pub fn info(&self) -> Result<TensorInfo> {
        let info = self.c_info()?;
        let shape = match info.ndim {
            0 => vec![],
            n => unsafe { std::slice::from_raw_parts(info.shape, n as usize) }.to_vec(),
        };
        Ok(TensorInfo {
            dtype: DType::row(|row| row.1 == info.dtype)?,
            shape,
            device: DeviceId::of(info.device),
            bytes: info.bytes,
            read_only: info.flags & sys::ASSAY_TENSOR_READ_ONLY as u32 != 0,
            view: info.flags & sys::ASSAY_TENSOR_VIEW as u32 != 0,
        })
    }

    /// The number of elements, which must be of type `T`.
    fn elements<T: Element>(&self) -> Result<usize> {
        let info = self.c_info()?;
        if info.dtype != T::DTYPE.to_c() {
            let message = format!("the tensor does not hold {}", T::DTYPE.name());
            return Err(Error::invalid(message));
        }
        Ok(info.bytes as usize / std::mem::size_of::<T>())
    }

    /// The same for a slice that they are copied to or from, which must have their number.
    fn check_elements<T: Element>(&self, slice: &[T]) -> Result<()> {
        let (n, given) = (self.elements::<T>()?, slice.len());
        if given != n {
            let shape = self.info()?.shape;
            let message = format!("{given} elements, the tensor of shape {shape:?} has {n}");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Copies all elements.
    pub fn read<T: Element>(&self) -> Result<Vec<T>> {
        let mut data = vec![T::default(); self.elements::<T>()?];
        self.read_into(&mut data)?;
        Ok(data)
    }

    /// Copies all elements to `dst`, which must have their number.
    pub fn read_into<T: Element>(&self, dst: &mut [T]) -> Result<()> {
        self.check_elements(dst)?;
        let (first, bytes) = (dst.as_mut_ptr() as *mut c_void, std::mem::size_of_val(dst));
        call(|e| unsafe { sys::assay_tensor_read(self.0.get(), first, bytes, e) })
    }

    /// Lends the tensor to other libraries of this process, without a copy: a `DLManagedTensorVersioned`
    /// of dlpack.h, whose deleter is to be called.
    pub fn to_dlpack(&self) -> Result<NonNull<c_void>> {
        let mut out = null_mut();
        call(|e| unsafe { sys::assay_tensor_to_dlpack(self.0.get(), &mut out, e) })?;
        Ok(NonNull::new(out.cast()).expect("the library gives what it made"))
    }

    /// Takes over a tensor of another library, without a copy. After an error it is still the caller's.
    ///
    /// # Safety
    /// `tensor` is a `DLManagedTensorVersioned` of dlpack.h, whose deleter may be called on any thread.
    /// Until then its elements are initialized and stay where they are, and others do to them only what
    /// `&Tensor` and `&mut Tensor` leave to them. After success `tensor` is the library's: the caller
    /// neither uses nor deletes it.
    pub unsafe fn from_dlpack(context: &Context, tensor: NonNull<c_void>) -> Result<Tensor> {
        make(sys::assay_tensor_release, context.0.host.as_ref(), |out, e| unsafe {
            sys::assay_tensor_from_dlpack(context.0.get(), tensor.as_ptr().cast(), out, e)
        })
        .map(Tensor)
    }

    /// Copies all elements from `src`, which must have their number.
    pub fn write<T: Element>(&mut self, src: &[T]) -> Result<()> {
        self.check_elements(src)?;
        let (first, bytes) = (src.as_ptr() as *const c_void, std::mem::size_of_val(src));
        call(|e| unsafe { sys::assay_tensor_write(self.0.get(), first, bytes, e) })
    }
}

/// Tensors as a call takes them.
pub(crate) fn pointers(tensors: &[&Tensor]) -> Vec<*const sys::assay_tensor> {
    tensors.iter().map(|t| t.0.get() as *const _).collect()
}

/// A tensor that a slot or a loader lends.
#[derive(Debug)]
pub struct View<'a> {
    tensor: Tensor,
    lender: PhantomData<&'a mut ()>,
}

impl View<'_> {
    /// Of memory that nobody writes as long as `'a` lasts.
    pub(crate) fn new<'a>(tensor: Tensor) -> View<'a> {
        View { tensor, lender: PhantomData }
    }

    /// The elements, without a copy.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        let n = self.elements::<T>()?;
        let data = self.c_info()?.data;
        if n == 0 {
            return Ok(&[]);
        }
        if data.is_null() {
            return Err(Error::new(Code::Unsupported, "in memory of a device: read it".into()));
        }
        Ok(unsafe { std::slice::from_raw_parts(data.cast(), n) })
    }
}

impl Deref for View<'_> {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.tensor
    }
}
