"""A warmed Python that becomes one program after another, each in a fork of its own.

Started by the jail with the control socket as standard input, the library (`native/lib.rs`) as
standard output, and the kind as its argument. It enters its own view of the machine, imports and
exercises what programs use, freezes what it holds, and then serves. Only forks of it run programs:
`_run` is where a program starts and ends.

Invariant: what a program changes (modules, streams, hooks) changes only its own process, and the
functions that end a program use names that were bound before it started.
"""

import sys


def _begin():
    import os
    from importlib.machinery import ExtensionFileLoader, ModuleSpec
    from importlib.util import module_from_spec

    control_fd = os.dup(0)
    path = "/proc/self/fd/1"
    loader = ExtensionFileLoader("rocstar_zygote", path)
    native = module_from_spec(ModuleSpec("rocstar_zygote", loader, origin=path))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    native.enter(control_fd)
    return native, control_fd, sys.argv[1]


_native, _control_fd, _kind = _begin()

import ast
import atexit
import builtins
import collections
import contextlib
import copy
import dataclasses
import datetime
import decimal
import enum
import errno
import fractions
import functools
import gc
import heapq
import io
import itertools
import json
import linecache
import math
import operator
import os
import pprint
import random
import re
import signal
import statistics
import string
import subprocess
import textwrap
import threading
import time
import traceback
import types
import typing

_PROGRAM = "/tmp/program.py"
_LAST_EXPRESSION = 1
_BRANCH = 4

(
    _SAID_OK,
    _SAID_EXCEPTION,
    _SAID_EXIT,
    _SAID_MEMORY,
    _SAID_TMP_FULL,
    _SAID_FILE_TOO_BIG,
    _SAID_PROCESSES,
) = range(1, 8)

_MAX_MESSAGE = 1000
_MAX_VALUE = 60000


def _report(kind, line=0, name="", message="", value=None, _report=_native.report, _len=len):
    name = name.encode("utf-8", "backslashreplace")[:_MAX_MESSAGE]
    message = message[:_MAX_MESSAGE].encode("utf-8", "backslashreplace")
    if value is not None:
        value = value.encode("utf-8", "backslashreplace")
        if _len(value) > _MAX_VALUE:
            cut = _len(value) - _MAX_VALUE
            value = value[:_MAX_VALUE] + b"[\xe2\x80\xa6 %d bytes cut \xe2\x80\xa6]" % cut
    _report(kind, line, name, message, value)


# Where Python ends a line; `str.splitlines` knows more places.
_LINE_END = re.compile(r"\r\n|\r|\n")


def _split_last_expression(source):
    """The tree of all but the last expression, and that expression's own tree, if there is one."""
    tree = ast.parse(source, _PROGRAM)
    if not tree.body or not isinstance(tree.body[-1], ast.Expr):
        return tree, None
    last = tree.body.pop()
    # IPython's rule: a semicolon at the very end asks for no value.
    lines = _LINE_END.split(source)
    rest = lines[last.end_lineno - 1].encode()[last.end_col_offset :].decode()
    tail = "\n".join([rest, *lines[last.end_lineno :]])
    expression = ast.Expression(last.value)
    return tree, (expression, tail.lstrip().startswith(";"))


def _show(value, _repr=repr, _pformat=pprint.pformat):
    """`repr`; containers too wide for a line are laid out over several, as IPython does."""
    text = _repr(value)
    if len(text) > 79 and type(value) in (dict, list, tuple, set, frozenset):
        return _pformat(value, width=79, sort_dicts=False)
    return text


def _execute(source, want_value, namespace):
    """Runs the program. Returns the shown value of its last expression."""
    if not want_value:
        exec(compile(source, _PROGRAM, "exec", dont_inherit=True), namespace)
        return None
    tree, last = _split_last_expression(source)
    exec(compile(tree, _PROGRAM, "exec", dont_inherit=True), namespace)
    if last is None:
        return None
    expression, silent = last
    value = eval(compile(expression, _PROGRAM, "eval", dont_inherit=True), namespace)
    return None if silent or value is None else _show(value)


def _line_of(error):
    """The line of the program that the exception came through last."""
    if isinstance(error, SyntaxError) and error.filename == _PROGRAM:
        return error.lineno or 0
    line = 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _PROGRAM:
            line = trace.tb_lineno or line
        trace = trace.tb_next
    return line


def _classify(error):
    if isinstance(error, MemoryError):
        return _SAID_MEMORY
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _SAID_TMP_FULL
        if error.errno == errno.EFBIG:
            return _SAID_FILE_TOO_BIG
        if isinstance(error, BlockingIOError) and error.errno == errno.EAGAIN:
            return _SAID_PROCESSES
    return _SAID_EXCEPTION


def _qualified(kind):
    name = getattr(kind, "__qualname__", "Exception")
    module = getattr(kind, "__module__", None)
    if module in (None, "builtins", "__main__"):
        return name
    return "%s.%s" % (module, name)


def _print_exception(kind, error, trace, _print=traceback.print_exception):
    """The program's own hook, or a traceback with its source lines, which are on no disk."""
    hook = sys.excepthook
    if hook is sys.__excepthook__:
        _print(kind, error, trace)
        return
    try:
        hook(kind, error, trace)
    except BaseException:
        _print(kind, error, trace)


def _fail(error, _print_exception=_print_exception):
    """Prints the traceback, as Python would, and reports the exception."""
    trace = error.__traceback__
    # Our own frames come first.
    while trace is not None and trace.tb_frame.f_code.co_filename != _PROGRAM:
        trace = trace.tb_next
    error.__traceback__ = trace
    try:
        _print_exception(type(error), error, trace)
    except BaseException:
        pass
    try:
        message = str(error)
    except BaseException:
        message = ""
    _report(_classify(error), _line_of(error), _qualified(type(error)), message)


def _exit_code(error):
    """What the interpreter makes of `SystemExit`."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass


def _finish(
    namespace=None,
    _shutdown=threading._shutdown,
    _atexit=atexit._run_exitfuncs,
    _collect=gc.collect,
    _flush=_flush,
):
    """What the interpreter does before it ends: other threads, then `atexit`, then the program's
    own objects (files that are still open are written out), then the streams."""
    try:
        _shutdown()
        _atexit()
    except BaseException as error:
        _print_exception(type(error), error, error.__traceback__)
    if namespace is not None:
        try:
            namespace.clear()
            _collect()
        except BaseException:
            pass
    _flush()


def _main_module():
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __file__=_PROGRAM)
    sys.modules["__main__"] = main
    return main.__dict__


def _decode(source):
    """Source text, left in the line cache so that tracebacks show it."""
    text = source.decode("utf-8")
    lines = [line + "\n" for line in _LINE_END.split(text)]
    linecache.cache[_PROGRAM] = (len(text), None, lines, _PROGRAM)
    return text


def _run(request, _exit=os._exit, _finish=_finish, _report=_report, _fail=_fail):
    """One program, from its first line to the end of this process."""
    flags, program, arguments = request
    namespace = _main_module()
    sys.argv = [_PROGRAM, *_split(arguments)]
    code = 0
    said = None
    try:
        value = _execute(_decode(program), flags & _LAST_EXPRESSION, namespace)
        said = (_SAID_OK, 0, "", "", value)
    except SystemExit as error:
        code = _exit_code(error)
        said = (_SAID_EXIT,)
    except BaseException as error:
        code = 1
        _fail(error)
    _finish(namespace)
    if said is not None:
        _report(*said)
    _exit(code)


def _split(arguments):
    arguments = arguments.split(b"\0")[:-1]
    return [argument.decode("utf-8", "surrogateescape") for argument in arguments]


def _next_program(
    _next=_native.next_cell,
    _branch=_native.branch,
    _get_state=random.getstate,
    _set_state=random.setstate,
):
    """Waits for the next cell. Requests to branch are dealt with here, in both processes."""
    while True:
        try:
            request = _next()
            if not request[0] & _BRANCH:
                return request
            # Python draws a new seed in a fork; a branch goes on where the session is.
            state = _get_state()
            _branch()
            _set_state(state)
        except KeyboardInterrupt:
            # An interrupt that came after the cell's own end.
            continue


def _session(request, _exit=os._exit, _report=_report, _fail=_fail):
    """A live interpreter: cell after cell in one namespace."""
    namespace = _main_module()
    sys.argv = [_PROGRAM, *_split(request[2])]
    while True:
        flags, program, _ = request
        try:
            value = _execute(_decode(program), flags & _LAST_EXPRESSION, namespace)
        except SystemExit as error:
            code = _exit_code(error)
            _finish()
            _report(_SAID_EXIT)
            _exit(code)
        except BaseException as error:
            _fail(error)
        else:
            _report(_SAID_OK, value=value)
        _flush()
        request = _next_program()


_WARM = """
import math, json, re, random, collections, itertools, functools, sys, time
from fractions import Fraction
def f(n):
    return n if n < 2 else f(n - 1) + f(n - 2)
print(f(5), [x * x for x in range(3)], {1: 2}, "%s %r" % (1, "a"), f"{3.14159:.2f}")
try:
    [][1]
except IndexError as error:
    pass
print(Fraction(1, 3) + Fraction(1, 6), json.dumps({"a": [1, 2.5, None]}), re.findall(r"\\d+", "a1b22"))
print(sorted(collections.Counter("hello").items()), list(itertools.permutations(range(3)))[:2])
print(math.sqrt(2), math.gcd(12, 18), pow(3, 100, 7), sum(range(100)), len(str(2 ** 100)))
1 + 1
"""

_WARM_SCIENCE = """
import sympy, numpy as np
x, y = sympy.symbols("x y")
print(sympy.solve(x**2 - 5 * x + 6, x), sympy.solve([x + y - 3, x - y - 1], [x, y]))
print(sympy.simplify(sympy.sin(x)**2 + sympy.cos(x)**2), sympy.expand((x + 1)**5), sympy.factor(x**4 - 1))
print(sympy.integrate(x * sympy.exp(x), x), sympy.diff(sympy.sin(x) * x, x), sympy.limit(sympy.sin(x) / x, x, 0))
print(sympy.factorint(360), sympy.isprime(97), sympy.Rational(1, 3).evalf(), sympy.Matrix([[1, 2], [3, 4]]).det())
print(sympy.summation(x, (x, 1, 10)), sympy.sqrt(8), sympy.N(sympy.pi, 20), sympy.latex(x / 2))
a = np.array([[2.0, 1.0], [1.0, 3.0]])
print(np.linalg.solve(a, np.array([3.0, 5.0])), np.linalg.det(a), np.linalg.eigvals(a), np.dot(a, a))
print(np.arange(6).reshape(2, 3).sum(axis=0), np.mean(a), np.linspace(0, 1, 3), np.random.rand(2).shape)
"""

_SCIENCE = (
    "numpy",
    "numpy.linalg",
    "mpmath",
    "sympy",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.integrate",
    "scipy.special",
    "scipy.stats",
    "networkx",
)


def _warm():
    programs = [_WARM]
    if _kind == "scientific":
        import importlib

        for module in _SCIENCE:
            try:
                importlib.import_module(module)
            except ImportError:
                pass
        if "sympy" in sys.modules and "numpy" in sys.modules:
            programs += [_WARM_SCIENCE, _WARM_SCIENCE]
    null = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
        for program in programs * 2:
            namespace = _main_module()
            _execute(_decode(program.encode()), True, namespace)
            namespace.clear()
        for program in ("1 +", "def f():\n    raise ValueError('x')\nf()"):
            try:
                _execute(_decode(program.encode()), False, _main_module())
            except Exception as error:
                traceback.print_exception(error)
    linecache.clearcache()


def _reachable():
    """Every object alive now."""
    seen = {}
    waiting = gc.get_objects()
    while waiting:
        found = {id(item): item for item in waiting if id(item) not in seen}
        seen.update(found)
        waiting = gc.get_referents(*found.values())
    return list(seen.values())


def _make_immortal():
    """Stops reference counting for all that is warm, so that reading it dirties no page.

    CPython 3.12 and 3.13 skip objects that carry one fixed count; other versions keep it
    elsewhere or have none.
    """
    if not (3, 12) <= sys.version_info[:2] <= (3, 13):
        return
    _native.make_immortal(_reachable())


def _fresh_streams():
    """Streams that were opened on a pipe, as a program's are: a stream asks its descriptor once
    whether it can seek, and the zygote's own can."""
    log = os.dup(2)
    ends = os.pipe()
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(ends[1], descriptor)
        stream = open(
            descriptor, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        stream.buffer.raw.name = "<%s>" % name
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
    os.dup2(log, 2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    for descriptor in (log, null, *ends):
        os.close(descriptor)


def _default_signals():
    """A server started in the background may ignore signals, and a process inherits that."""
    python_own = {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT}
    for number in signal.valid_signals() - python_own - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _serve():
    _default_signals()
    _warm()
    for name in ("GLIBC_TUNABLES", "LD_BIND_NOW"):
        os.environ.pop(name, None)
    _fresh_streams()
    # As for any script: modules that lie beside it can be imported.
    sys.path.insert(0, os.path.dirname(_PROGRAM))
    # 8 MiB of reserved stack for each thread would soon fill a limited address space.
    threading.stack_size(2 << 20)
    sys.modules.pop("__main__", None)
    gc.collect()
    _make_immortal()
    gc.freeze()
    _native.settle()
    role = _native.serve(_control_fd)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        # Every fork would draw the same numbers otherwise; `random` sees to itself.
        numpy.random.seed()
    request = _native.park()
    (_session if role == 2 else _run)(request)


_serve()
