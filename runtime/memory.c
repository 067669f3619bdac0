/*===- memory.c - Allocators and free lists ---------------------------------===*/
#include "runtime.h"

#include <stdlib.h>
#include <sys/mman.h>

/* From this size on memory comes from mmap, aligned for transparent huge pages. */
#define HUGE_PAGE ((size_t)2 << 20)
#define MAP_THRESHOLD (2 * HUGE_PAGE)

static size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

void *kiln_allocate(const kiln_allocator *allocator, size_t bytes) {
  if (bytes > PTRDIFF_MAX - HUGE_PAGE)
    return NULL;
  if (allocator->alloc) {
    void *p = allocator->alloc(allocator->ctx, bytes, KILN_ALIGNMENT);
    if (KILN_LIKELY((uintptr_t)p % KILN_ALIGNMENT == 0))
      return p;
    allocator->dealloc(allocator->ctx, p, bytes, KILN_ALIGNMENT);
    return NULL;
  }
  void *p;
  return posix_memalign(&p, KILN_ALIGNMENT, bytes) == 0 ? p : NULL;
}

void kiln_deallocate(const kiln_allocator *allocator, void *p, size_t bytes) {
  if (allocator->dealloc)
    allocator->dealloc(allocator->ctx, p, bytes, KILN_ALIGNMENT);
  else
    free(p);
}

static void *map_huge(size_t bytes) {
  size_t mapped = round_up(bytes, HUGE_PAGE) + HUGE_PAGE;
  char *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return NULL;
  char *aligned = (char *)round_up((uintptr_t)base, HUGE_PAGE);
  size_t kept = round_up(bytes, HUGE_PAGE);
  if (aligned != base)
    munmap(base, (size_t)(aligned - base));
  munmap(aligned + kept, mapped - kept - (size_t)(aligned - base));
  madvise(aligned, kept, MADV_HUGEPAGE); /* a hint: may fail */
  return aligned;
}

void kiln_block_free(kiln_block *block, const kiln_allocator *allocator) {
  if (!block->data)
    return;
  if (!allocator->alloc && block->bytes >= MAP_THRESHOLD)
    munmap(block->data, round_up(block->bytes, HUGE_PAGE));
  else
    kiln_deallocate(allocator, block->data, block->bytes);
  block->data = NULL;
  block->bytes = 0;
}

bool kiln_block_reserve(kiln_block *block, const kiln_allocator *allocator, size_t bytes) {
  if (KILN_LIKELY(bytes <= block->bytes))
    return true;
  kiln_block_free(block, allocator);
  if (bytes > PTRDIFF_MAX - 2 * HUGE_PAGE)
    return false;
  bytes = round_up(bytes, KILN_ALIGNMENT);
  void *data = !allocator->alloc && bytes >= MAP_THRESHOLD ? map_huge(bytes)
                                                           : kiln_allocate(allocator, bytes);
  if (!data)
    return false;
  *block = (kiln_block){data, bytes};
  return true;
}

/* The counter in the low bits changes with every push and pop, so that a thread
 * that was preempted between reading `head` and `next` fails its exchange even
 * if the same node is on top again. */
#define COUNTER_BITS 22
#define COUNTER_MASK (((uint64_t)1 << COUNTER_BITS) - 1)

static kiln_node *node_of(uint64_t head) {
  return (kiln_node *)(uintptr_t)(head >> COUNTER_BITS << 6);
}

static uint64_t head_of(const kiln_node *node, uint64_t old) {
  return (uint64_t)(uintptr_t)node >> 6 << COUNTER_BITS | ((old + 1) & COUNTER_MASK);
}

void kiln_push(kiln_stack *stack, kiln_node *node) {
  uint64_t old = atomic_load_explicit(&stack->head, memory_order_relaxed);
  do
    atomic_store_explicit(&node->next, node_of(old), memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&stack->head, &old, head_of(node, old),
                                                memory_order_release, memory_order_relaxed));
}

kiln_node *kiln_pop(kiln_stack *stack) {
  uint64_t old = atomic_load_explicit(&stack->head, memory_order_acquire);
  for (;;) {
    kiln_node *node = node_of(old);
    if (!node)
      return NULL;
    kiln_node *next = atomic_load_explicit(&node->next, memory_order_relaxed);
    if (atomic_compare_exchange_weak_explicit(&stack->head, &old, head_of(next, old),
                                              memory_order_acquire, memory_order_acquire))
      return node;
  }
}
