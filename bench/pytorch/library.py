"""Weft by its C interface (include/weft/c.h), with nothing but ctypes: kernels are launched from the process that
launches what they are compared with."""

import ctypes as c

DTYPES = {"f32": 1, "f16": 2, "bf16": 3, "f64": 4, "i32": 5, "u8": 6}
UNUSED_PLACE = 2**31 - 1


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int), ("rank", c.c_int32), ("extent", c.c_int64 * 4),
                ("stride", c.c_int64 * 4)]


class NamedTensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("tensor", Tensor)]


class EngineOptions(c.Structure):
    # What stands behind is left to the library: it takes the size of this as an older caller's.
    _fields_ = [("size", c.c_size_t), ("cache_dir", c.c_char_p), ("no_cache", c.c_int32)]


class CompileOptions(c.Structure):
    _fields_ = [("size", c.c_size_t), ("pattern", c.c_char_p), ("params", c.POINTER(c.c_char_p)),
                ("param_count", c.c_size_t), ("heads", c.c_int64), ("kv_heads", c.c_int64), ("dim", c.c_int64),
                ("dim_v", c.c_int64), ("dtype", c.c_int), ("branch_lse", c.c_int32), ("paged", c.c_int32),
                ("target", c.c_char_p), ("source_name", c.c_char_p), ("gradient", c.c_int32)]


class RunArgs(c.Structure):
    _fields_ = [("size", c.c_size_t), ("q", Tensor), ("k", Tensor), ("v", Tensor), ("out", Tensor), ("lse", Tensor),
                ("branch_lse", Tensor), ("inputs", c.POINTER(NamedTensor)), ("input_count", c.c_size_t),
                ("offset", c.c_void_p), ("offset_count", c.c_size_t), ("cu_q", c.c_void_p), ("cu_q_count", c.c_size_t),
                ("cu_k", c.c_void_p), ("cu_k_count", c.c_size_t), ("pages", Tensor), ("kv_lengths", c.c_void_p),
                ("kv_length_count", c.c_size_t), ("lists", c.POINTER(Tensor)), ("list_count", c.c_size_t),
                ("dropout_seed", c.c_uint64), ("workspace", c.c_void_p), ("workspace_bytes", c.c_size_t),
                ("threads", c.c_int32), ("stream", c.c_void_p), ("slice_first", c.c_int64), ("slice_of", c.c_int64),
                ("d_out", Tensor), ("d_lse", Tensor), ("dq", Tensor), ("dk", Tensor), ("dv", Tensor),
                ("d_inputs", c.POINTER(NamedTensor)), ("d_input_count", c.c_size_t)]


class RunShape(c.Structure):
    _fields_ = [(name, c.c_int64) for name in ("batch", "n_q", "n_k", "heads", "kv_heads", "slice_first", "slice_of",
                                         "head_first", "head_of")]


class ChosenList(c.Structure):
    _fields_ = [("set", c.c_char_p), ("block", c.c_int64), ("extent", c.c_int64 * 4), ("first_row", c.c_int64)]


class Error(Exception):
    pass


def tensor(data, dtype, extents, strides):
    """`data` is an address; strides count elements."""
    out = Tensor(data=data, dtype=DTYPES[dtype], rank=len(extents))
    out.extent[:len(extents)] = list(extents)
    out.stride[:len(strides)] = list(strides)
    return out


class Library:
    def __init__(self, path):
        self.c = c.CDLL(path)
        for name, result, arguments in (
            ("weft_version", c.c_char_p, []),
            ("weft_error_report", c.c_char_p, [c.c_void_p]),
            ("weft_error_free", None, [c.c_void_p]),
            ("weft_engine_create", c.c_void_p, [c.POINTER(EngineOptions), c.POINTER(c.c_void_p)]),
            ("weft_engine_destroy", None, [c.c_void_p]),
            ("weft_compile", c.c_void_p,
             [c.c_void_p, c.c_char_p, c.c_size_t, c.POINTER(CompileOptions), c.POINTER(c.c_void_p)]),
            ("weft_kernel_destroy", None, [c.c_void_p]),
            ("weft_kernel_compile_ms", c.c_double, [c.c_void_p]),
            ("weft_kernel_load_ms", c.c_double, [c.c_void_p]),
            ("weft_kernel_target", c.c_char_p, [c.c_void_p]),
            ("weft_run", c.c_void_p, [c.c_void_p, c.POINTER(RunArgs)]),
            ("weft_kernel_workspace", c.c_void_p, [c.c_void_p, RunShape, c.c_int32, c.POINTER(c.c_size_t)]),
            ("weft_kernel_lists", c.c_void_p,
             [c.c_void_p, RunShape, c.c_void_p, c.c_size_t, c.c_void_p, c.c_void_p]),
        ):
            function = getattr(self.c, name)
            function.restype, function.argtypes = result, arguments

    @property
    def version(self):
        return self.c.weft_version().decode()

    def check(self, error):
        if not error:
            return
        report = self.c.weft_error_report(error).decode()
        self.c.weft_error_free(error)
        raise Error(report.strip())


class Engine:
    """Without a store: what it compiles is compiled."""

    def __init__(self, library):
        self.library, self.handle = library, c.c_void_p()
        options = EngineOptions(size=c.sizeof(EngineOptions), no_cache=1)
        library.check(library.c.weft_engine_create(c.byref(options), c.byref(self.handle)))

    def __del__(self):
        if self.handle:
            self.library.c.weft_engine_destroy(self.handle)

    def compile(self, text, pattern, params, heads, dim, dtype, target, kv_heads=0, gradient=False):
        return Kernel(self, text, pattern, params, heads, dim, dtype, target, kv_heads or heads, gradient)


class Kernel:
    def __init__(self, engine, text, pattern, params, heads, dim, dtype, target, kv_heads, gradient=False):
        self.engine, self.library, self.handle = engine, engine.library, c.c_void_p()
        given = [f"{name}={value}".encode() for name, value in params.items()]
        options = CompileOptions(size=c.sizeof(CompileOptions), pattern=pattern.encode(),
                                 params=(c.c_char_p * len(given))(*given), param_count=len(given), heads=heads,
                                 kv_heads=kv_heads, dim=dim, dtype=DTYPES[dtype], target=target.encode(),
                                 gradient=int(gradient))
        text = text.encode()
        self.library.check(
            self.library.c.weft_compile(engine.handle, text, len(text), c.byref(options), c.byref(self.handle)))

    def __del__(self):
        if self.handle:
            self.library.c.weft_kernel_destroy(self.handle)

    @property
    def target(self):
        return self.library.c.weft_kernel_target(self.handle).decode()

    @property
    def compile_ms(self):
        return self.library.c.weft_kernel_compile_ms(self.handle)

    @property
    def load_ms(self):
        return self.library.c.weft_kernel_load_ms(self.handle)

    def workspace_bytes(self, shape, threads):
        """What a launch of (batch, queries, keys, heads, kv heads) takes beside its tensors."""
        out = c.c_size_t()
        self.library.check(self.library.c.weft_kernel_workspace(self.handle, RunShape(*shape), threads, c.byref(out)))
        return out.value

    def list_extents(self, batch, tokens, heads):
        """Of the lists of key blocks that a launch makes, in order."""
        out = []
        visit = c.CFUNCTYPE(None, c.POINTER(ChosenList), c.c_void_p)(lambda one, _: out.append(list(one[0].extent)))
        shape = RunShape(batch=batch, n_q=tokens, n_k=tokens, heads=heads, kv_heads=heads)
        self.library.check(self.library.c.weft_kernel_lists(self.handle, shape, None, 0, c.cast(visit, c.c_void_p), None))
        return out

    def launch(self, q, k, v, out, inputs=None, lists=None, stream=None, threads=0, **more):
        """A function that launches: everything it needs is made here, once. `threads`: of the CPU; 0: all. `more`: lse,
        and of gradients d_out, dq, dk and dv."""
        inputs = [NamedTensor(name=name.encode(), tensor=of) for name, of in (inputs or {}).items()]
        args = RunArgs(size=c.sizeof(RunArgs), q=q, k=k, v=v, out=out, stream=stream, threads=threads,
                       inputs=(NamedTensor * len(inputs))(*inputs), input_count=len(inputs),
                       lists=(Tensor * len(lists or []))(*(lists or [])), list_count=len(lists or []), **more)
        run, handle, reference, check = self.library.c.weft_run, self.handle, c.byref(args), self.library.check

        def launch():
            check(run(handle, reference))

        launch.keeps = (self, args)
        return launch
