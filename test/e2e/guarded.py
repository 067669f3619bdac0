"""A model whose memory is watched: writes outside of what it allocated, reads of what nothing wrote, and accesses beyond an input
show up in its tests."""

import ctypes
import mmap
import threading

import torch

import kiln

GUARD = 4096  # bytes before and behind each block
PATTERN = 0xA5
GARBAGE = 0xFF  # fresh memory: NaN in every float type, -1 in every signed one

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Deallocate = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Allocator:
    """The allocator of `kiln_options`. `problems` lists what was found wrong with blocks already freed."""

    def __init__(self):
        # A tensor that is freed while an exception is on its way calls back with that exception: what takes the lock then
        # does not give it back. The thread does not wait for itself.
        self.blocks, self.problems, self.lock = {}, [], threading.RLock()
        self.alloc, self.dealloc = _Allocate(self._allocate), _Deallocate(self._deallocate)

    def _allocate(self, context, size, align):
        memory = ctypes.create_string_buffer(size + align + 2 * GUARD)
        start = ctypes.addressof(memory)
        address = (start + GUARD + align - 1) // align * align
        ctypes.memset(start, PATTERN, len(memory))
        ctypes.memset(address, GARBAGE, size)
        with self.lock:
            self.blocks[address] = memory, size
        return address

    def _deallocate(self, context, address, size, align):
        with self.lock:
            block = self.blocks.pop(address, None)
            if block is None:
                self.problems.append(f"{address:#x} was freed without having been allocated")
            elif block[1] != size:
                self.problems.append(f"a block of {block[1]} bytes was freed as one of {size}")
            else:
                self.problems += self._damage(address, *block)

    @staticmethod
    def _damage(address, memory, size):
        for name, start in (("before", address - GUARD), ("behind", address + size)):
            touched = [at for at, byte in enumerate(ctypes.string_at(start, GUARD)) if byte != PATTERN]
            if touched:
                where = touched[0] if name == "behind" else GUARD - touched[-1]
                yield f"{len(touched)} bytes were written {name} a block of {size} bytes, the nearest {where} bytes from it"

    def check(self):
        with self.lock:
            problems = self.problems + [line for address, block in self.blocks.items() for line in self._damage(address, *block)]
        assert problems == []


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def in_memory_order(tensor):
    """All elements from the first to the last, as one dim."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.as_strided((extent,), (1,))


def beside_gap(tensor, ends):
    """A copy in pages of its own: a page that cannot be accessed is behind its last byte, or before its first one."""
    elements = in_memory_order(tensor)
    used = elements.nbytes
    pages = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)  # keeps the pages as long as the copy is there
    gap, start = (pages, pages - used) if ends else (0, mmap.PAGESIZE)
    copy = whole[start : start + used].view(tensor.dtype)
    copy.copy_(elements)
    assert _libc.mprotect(whole.data_ptr() + gap, mmap.PAGESIZE, 0) == 0
    return torch.as_strided(copy, tensor.shape, tensor.stride())


def has_own_memory(tensor, tensors):
    """No other input is a view of the same memory, and a copy in other memory is the same to the model."""
    if not tensor.numel() or tensor.device.type != "cpu" or tensor.is_conj() or tensor.is_neg() or tensor.layout != torch.strided:
        return False
    return sum(other.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() for other in tensors) == 1


class GuardedModel(kiln.Model):
    """kiln.Model with a watched allocator and gaps beside its inputs. The allocator must outlive the outputs, so it is never freed."""

    _kept = []
    _runs = 0

    def run(self, inputs):
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        with torch.no_grad():
            places = [
                beside_gap(value, self._runs % 2 == 0) if isinstance(value, torch.Tensor) and has_own_memory(value, tensors) else value
                for value in inputs
            ]
            self._runs += 1
            outputs = super().run(places)
            for value, place in zip(inputs, places):
                if place is not value:
                    in_memory_order(value).copy_(in_memory_order(place))
        return outputs

    def _make_options(self, threads, weights):
        self.allocator = Allocator()
        self._kept.append(self.allocator)
        options = super()._make_options(threads, weights)
        options.alloc = ctypes.cast(self.allocator.alloc, ctypes.c_void_p)
        options.dealloc = ctypes.cast(self.allocator.dealloc, ctypes.c_void_p)
        return options
