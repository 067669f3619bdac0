"""A model whose memory is watched: writes outside of what it allocated, and reads of what nothing wrote, show up in its tests."""

import ctypes
import threading

import kiln

GUARD = 4096  # bytes before and behind each block
PATTERN = 0xA5
GARBAGE = 0xFF  # fresh memory: NaN in every float type, -1 in every signed one

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_Deallocate = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)


class Allocator:
    """The allocator of `kiln_options`. `problems` lists what was found wrong with blocks already freed."""

    def __init__(self):
        self.blocks, self.problems, self.lock = {}, [], threading.Lock()
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


class GuardedModel(kiln.Model):
    """kiln.Model with a watched allocator. The allocator must outlive the outputs, so it is never freed."""

    _kept = []

    def _make_options(self, threads, weights):
        self.allocator = Allocator()
        self._kept.append(self.allocator)
        options = super()._make_options(threads, weights)
        options.alloc = ctypes.cast(self.allocator.alloc, ctypes.c_void_p)
        options.dealloc = ctypes.cast(self.allocator.dealloc, ctypes.c_void_p)
        return options
