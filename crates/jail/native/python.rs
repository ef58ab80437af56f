//! The library as Python sees it: an extension module of eight functions.
//!
//! Only CPython's stable interface is used, declared by hand; the symbols come from the
//! interpreter that imports the module. An extension module rather than `ctypes`: a call through
//! `ctypes` touches a hundred pages that a fork must then copy.

#![allow(non_snake_case, non_upper_case_globals)]

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr::{null, null_mut};

use crate::wire::Said;
use crate::{Failure, arena, branch as branching, child, enter, keeper, say, state, sys, text};

/// An object; only its first word, the reference count, is ever looked at.
#[repr(C)]
pub(crate) struct PyObject {
    references: u64,
    kind: *mut c_void,
}

#[repr(C)]
struct MethodDefinition {
    name: *const c_char,
    function: Option<unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject>,
    flags: c_int,
    document: *const c_char,
}

#[repr(C)]
struct ModuleDefinition {
    base: [usize; 5],
    name: *const c_char,
    document: *const c_char,
    size: isize,
    methods: *const MethodDefinition,
    rest: [usize; 4],
}

unsafe extern "C" {
    pub(crate) fn PyOS_BeforeFork();
    pub(crate) fn PyOS_AfterFork_Parent();
    pub(crate) fn PyOS_AfterFork_Child();
    pub(crate) fn PyObject_SetArenaAllocator(allocator: *const c_void);
    fn PyModule_Create2(definition: *mut ModuleDefinition, version: c_int) -> *mut PyObject;
    fn PyLong_FromLong(value: c_long) -> *mut PyObject;
    fn PyLong_AsLong(object: *mut PyObject) -> c_long;
    fn PyBytes_FromStringAndSize(bytes: *const c_char, length: isize) -> *mut PyObject;
    fn PyBytes_AsStringAndSize(
        object: *mut PyObject,
        bytes: *mut *mut c_char,
        length: *mut isize,
    ) -> c_int;
    fn PyTuple_New(length: isize) -> *mut PyObject;
    fn PyTuple_SetItem(tuple: *mut PyObject, index: isize, item: *mut PyObject) -> c_int;
    fn PyTuple_GetItem(tuple: *mut PyObject, index: isize) -> *mut PyObject;
    fn PyList_Size(list: *mut PyObject) -> isize;
    fn PyList_GetItem(list: *mut PyObject, index: isize) -> *mut PyObject;
    fn PyErr_CheckSignals() -> c_int;
    fn PyErr_Occurred() -> *mut PyObject;
    fn PyErr_SetString(kind: *mut PyObject, message: *const c_char);
    static mut PyExc_OSError: *mut PyObject;
    static mut _Py_NoneStruct: PyObject;
}

const METH_VARARGS: c_int = 1;
const METH_NOARGS: c_int = 4;
const METH_O: c_int = 8;
/// `PYTHON_API_VERSION` of every CPython 3.
const API_VERSION: c_int = 1013;

struct Methods([MethodDefinition; 9]);
// SAFETY: constant data; the pointers in it are to constants.
unsafe impl Sync for Methods {}

const fn method(
    name: &'static std::ffi::CStr,
    function: unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject,
    flags: c_int,
) -> MethodDefinition {
    MethodDefinition { name: name.as_ptr(), function: Some(function), flags, document: null() }
}

static METHODS: Methods = Methods([
    method(c"enter", enter, METH_O),
    method(c"settle", settle, METH_NOARGS),
    method(c"make_immortal", make_immortal, METH_O),
    method(c"serve", serve, METH_O),
    method(c"park", park, METH_NOARGS),
    method(c"next_cell", next_cell, METH_NOARGS),
    method(c"branch", branch, METH_NOARGS),
    method(c"report", report, METH_VARARGS),
    MethodDefinition { name: null(), function: None, flags: 0, document: null() },
]);

/// Called by the interpreter's import.
///
/// # Safety
/// The interpreter is initialised and this is its only thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn PyInit_rocstar_zygote() -> *mut PyObject {
    let definition = ModuleDefinition {
        // One reference, as `PyModuleDef_HEAD_INIT` has it.
        base: [1, 0, 0, 0, 0],
        name: c"rocstar_zygote".as_ptr(),
        document: null(),
        size: -1,
        methods: METHODS.0.as_ptr(),
        rest: [0; 4],
    };
    // The interpreter keeps the address for ever.
    let definition = Box::leak(Box::new(definition));
    // SAFETY: a valid definition that is never freed.
    unsafe { PyModule_Create2(definition, API_VERSION) }
}

/// Python's `None`, or an `OSError` that says what failed.
fn none_or_error(result: Result<(), Failure>) -> *mut PyObject {
    match result {
        // `None` is immortal or counted; either way one more reference is given out here.
        // SAFETY: the interpreter is alive, and this thread holds its lock.
        Ok(()) => unsafe {
            let none = &raw mut _Py_NoneStruct;
            Py_IncRef(none);
            none
        },
        Err((what, error)) => {
            say(what, error);
            // SAFETY: as above, and the message is a constant.
            unsafe { PyErr_SetString(PyExc_OSError, c"see the line above".as_ptr()) };
            null_mut()
        }
    }
}

unsafe extern "C" {
    fn Py_IncRef(object: *mut PyObject);
}

/// `enter(control)`: own namespaces and file tree, as the configuration says that comes over
/// `control`; then memory on huge pages.
unsafe extern "C" fn enter(_: *mut PyObject, control: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter with a live argument; the only thread, so no other
    // reference to the state is alive.
    unsafe {
        let control = PyLong_AsLong(control) as c_int;
        arena::install();
        none_or_error(enter::enter(state(), control))
    }
}

/// `settle()`: ends the warming. Limits that all children share, no new privileges, memory laid
/// out for forking.
unsafe extern "C" fn settle(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    arena::settle();
    text::make_anonymous();
    // SAFETY: the only thread, so no other reference to the state is alive.
    none_or_error(enter::settle(unsafe { state() }))
}

/// `make_immortal(objects)`: gives every object of the list the reference count of `None`, so that
/// using it dirties no page. Only for CPython 3.12 and 3.13, where the count is the first word and
/// that of `None` is fixed, and only for objects that are never freed.
unsafe extern "C" fn make_immortal(_: *mut PyObject, objects: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter with a live list; each item is a live object.
    unsafe {
        let immortal = (*(&raw const _Py_NoneStruct)).references;
        for index in 0..PyList_Size(objects) {
            let object = PyList_GetItem(objects, index);
            if (*object).references != immortal {
                (*object).references = immortal;
            }
        }
    }
    none_or_error(Ok(()))
}

/// `serve(control)`: serves the jail for ever. Returns 1 in a child that is to become a program, 2
/// in one that is to become a live session; never returns in the zygote or a keeper.
unsafe extern "C" fn serve(_: *mut PyObject, control: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter with a live argument; the only thread.
    unsafe {
        let control = PyLong_AsLong(control) as c_int;
        // Never taken back: zygote and keepers run no Python any more, and each child, fork of a
        // fork, puts the interpreter right once.
        PyOS_BeforeFork();
        let role = keeper::serve(state(), control);
        PyOS_AfterFork_Child();
        PyLong_FromLong(role.into())
    }
}

/// `park()`: isolates this child, reports it ready, waits for its request. Returns
/// `(flags, program, arguments)`, the latter two as bytes.
unsafe extern "C" fn park(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter, in the child's only thread.
    unsafe {
        let flags = child::park(state());
        request(flags)
    }
}

/// `next_cell()`: says that a session's cell is over and waits for the next one; like `park`.
/// An interrupt that was meant for the last cell must not fall on the request that comes next:
/// one that is noted already is raised before the wait, one that comes during it is dropped.
unsafe extern "C" fn next_cell(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter, in the child's main thread; valid signal sets.
    unsafe {
        let mut interrupt = [0_u64; 16];
        interrupt[0] = 1 << (sys::SIGINT - 1);
        let mut before = [0_u64; 16];
        sys::sigprocmask(sys::SIG_BLOCK, &raw const interrupt, &raw mut before);
        if PyErr_CheckSignals() != 0 {
            sys::sigprocmask(sys::SIG_SETMASK, &raw const before, null_mut());
            return null_mut();
        }
        let flags = child::next_cell(state());
        let at_once = [0_i64; 2];
        sys::sigtimedwait(&raw const interrupt, null_mut(), &raw const at_once);
        sys::sigprocmask(sys::SIG_SETMASK, &raw const before, null_mut());
        request(flags)
    }
}

/// `branch()`: does what a request to branch asks. Returns in both processes; either goes on with
/// `next_cell`.
unsafe extern "C" fn branch(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter, in the child's main thread.
    branching::branch(unsafe { state() });
    none_or_error(Ok(()))
}

unsafe fn request(flags: c_int) -> *mut PyObject {
    // SAFETY: the interpreter is alive and this thread holds its lock; the parts stay mapped while
    // they are copied.
    unsafe {
        let (program, arguments) = state().run.texts();
        let bytes =
            |part: &[u8]| PyBytes_FromStringAndSize(part.as_ptr().cast(), part.len().cast_signed());
        let tuple = PyTuple_New(3);
        PyTuple_SetItem(tuple, 0, PyLong_FromLong(flags.into()));
        PyTuple_SetItem(tuple, 1, bytes(program));
        PyTuple_SetItem(tuple, 2, bytes(arguments));
        state().run.release_body();
        tuple
    }
}

/// `report(kind, line, name, message, value)`: says how the program ended (see `wire::Said`); text
/// as bytes, `value` bytes or `None`. Does nothing in a process that the program forked.
unsafe extern "C" fn report(_: *mut PyObject, arguments: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by the interpreter with a live tuple, whose items it keeps alive.
    unsafe {
        let item = |index| PyTuple_GetItem(arguments, index);
        let value = item(4);
        let said = Said {
            kind: PyLong_AsLong(item(0)) as u8,
            line: PyLong_AsLong(item(1)) as u32,
            name: bytes_of(item(2)),
            message: bytes_of(item(3)),
            value: (value != &raw mut _Py_NoneStruct).then(|| bytes_of(value)),
        };
        if !PyErr_Occurred().is_null() {
            return null_mut();
        }
        state().run.report(&said);
    }
    none_or_error(Ok(()))
}

unsafe fn bytes_of<'a>(object: *mut PyObject) -> &'a [u8] {
    let (mut bytes, mut length) = (null_mut(), 0);
    // SAFETY: a live object, kept alive by the caller's argument tuple; a wrong type sets the
    // interpreter's error, which the caller looks at.
    unsafe {
        if object.is_null() || PyBytes_AsStringAndSize(object, &raw mut bytes, &raw mut length) < 0
        {
            return &[];
        }
        std::slice::from_raw_parts(bytes.cast(), length.cast_unsigned())
    }
}
