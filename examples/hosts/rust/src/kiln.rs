//! Compiled models: `include/kiln-c/model.h` by hand, without bindgen.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::ptr;
use std::rc::Rc;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    device_type: c_int,
    device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

const FLOAT32: DataType = DataType { code: 2, bits: 32, lanes: 1 };
const CPU: Device = Device { device_type: 1, device_id: 0 };

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    major: u32,
    minor: u32,
    manager_ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
}

type AbiVersion = unsafe extern "C" fn() -> u32;
type Create = unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> i32;
type Run = unsafe extern "C" fn(*mut c_void, *const *const DlTensor, usize, *mut *mut Managed, usize, *mut c_void) -> i32;
type Destroy = unsafe extern "C" fn(*mut c_void);
type LastError = unsafe extern "C" fn() -> *const c_char;

#[link(name = "dl")]
extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
    fn dlerror() -> *const c_char;
}

#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The shared object, which stays loaded as long as the model or an output needs it.
struct Library(*mut c_void);

impl Library {
    fn open(path: &str) -> Result<Library, Error> {
        let name = CString::new(path).map_err(|_| Error("a path with a zero byte".into()))?;
        let handle = unsafe { dlopen(name.as_ptr(), 2) };
        if handle.is_null() {
            return Err(Error(unsafe { CStr::from_ptr(dlerror()) }.to_string_lossy().into()));
        }
        Ok(Library(handle))
    }

    /// `F` is the type of the function.
    unsafe fn find<F: Copy>(&self, name: &str) -> Result<F, Error> {
        let text = CString::new(name).unwrap();
        let function = dlsym(self.0, text.as_ptr());
        if function.is_null() {
            return Err(Error(format!("this is not a model: it has no {}", name)));
        }
        Ok(*(&function as *const *mut c_void as *const F))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        unsafe { dlclose(self.0) };
    }
}

pub struct Model {
    handle: *mut c_void,
    run: Run,
    destroy: Destroy,
    last_error: LastError,
    library: Rc<Library>,
}

impl Model {
    pub fn open(path: &str) -> Result<Model, Error> {
        let library = Rc::new(Library::open(path)?);
        unsafe {
            let version = library.find::<AbiVersion>("kiln_abi_version")?();
            if !(1..=2).contains(&version) {
                return Err(Error(format!("{} has version {} of the ABI", path, version)));
            }
            let create: Create = library.find("kiln_model_create")?;
            let mut model = Model {
                handle: ptr::null_mut(),
                run: library.find("kiln_model_run")?,
                destroy: library.find("kiln_model_destroy")?,
                last_error: library.find("kiln_last_error")?,
                library: library.clone(),
            };
            let status = create(ptr::null(), &mut model.handle);
            model.check(status)?;
            Ok(model)
        }
    }

    /// Runs a model of one input and one output.
    pub fn run(&self, data: &[f32], shape: &[i64]) -> Result<Tensor, Error> {
        assert_eq!(data.len() as i64, shape.iter().product::<i64>(), "data and shape differ");
        let mut sizes = shape.to_vec();
        let input = DlTensor {
            data: data.as_ptr() as *mut c_void,
            device: CPU,
            ndim: shape.len() as i32,
            dtype: FLOAT32,
            shape: sizes.as_mut_ptr(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let inputs = [&input as *const DlTensor];
        let mut outputs: [*mut Managed; 1] = [ptr::null_mut()];
        let status = unsafe { (self.run)(self.handle, inputs.as_ptr(), 1, outputs.as_mut_ptr(), 1, ptr::null_mut()) };
        self.check(status)?;
        let output = Tensor { managed: outputs[0], _library: self.library.clone() };
        if unsafe { (*output.managed).tensor.dtype } != FLOAT32 {
            return Err(Error("the output is not of float32".into()));
        }
        Ok(output)
    }

    fn check(&self, status: i32) -> Result<(), Error> {
        if status == 0 {
            return Ok(());
        }
        let message = unsafe { CStr::from_ptr((self.last_error)()) };
        Err(Error(format!("{} (status {})", message.to_string_lossy(), status)))
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { (self.destroy)(self.handle) };
    }
}

/// A contiguous output of float32, which owns its elements.
pub struct Tensor {
    managed: *mut Managed,
    _library: Rc<Library>, // the code of the deleter is in it
}

impl Tensor {
    pub fn shape(&self) -> &[i64] {
        let tensor = unsafe { &(*self.managed).tensor };
        unsafe { std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize) }
    }

    pub fn data(&self) -> &[f32] {
        let tensor = unsafe { &(*self.managed).tensor };
        let count = self.shape().iter().product::<i64>() as usize;
        unsafe { std::slice::from_raw_parts((tensor.data as *const u8).add(tensor.byte_offset as usize) as *const f32, count) }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe {
            if let Some(deleter) = (*self.managed).deleter {
                deleter(self.managed);
            }
        }
    }
}
