/*===- cluster.c - Blocks that run together ---------------------------------===*
 *
 * Shared memory of each is that of the host, at another address: one block's address
 * becomes another's by the difference. What a block may do to another is to arrive at its
 * barriers and to copy boxes to it (async.c), when both have met since the barriers were made.
 * A block must not end before that has come.
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"

static struct thread *self(void) { return &machine.block->threads[machine.current]; }

struct block *find_block(uintptr_t address, size_t bytes) {
  for (unsigned i = 0; i < machine.cluster; ++i) {
    uintptr_t begin = (uintptr_t)machine.blocks[i].shared;
    if (address >= begin && bytes <= machine.shared_bytes &&
        address - begin <= machine.shared_bytes - bytes)
      return &machine.blocks[i];
  }
  return NULL;
}

/* %cluster_ctarank */
EXPORT int32_t kiln_emulator_rank(void) { return (int32_t)(machine.block - machine.blocks); }

/* mapa: an address of this block in the block of this rank. */
EXPORT void *kiln_emulator_map_shared(void *address, int32_t rank) {
  if (rank < 0 || (unsigned)rank >= machine.cluster)
    fail("maps an address to block %d of a cluster of %u", rank, machine.cluster);
  else if (find_block((uintptr_t)address, 0) != machine.block)
    fail("maps an address that is not its shared memory's");
  if (machine.failed)
    stop();
  return machine.blocks[rank].shared + ((char *)address - machine.block->shared);
}

/*===-- The cluster's barrier -----------------------------------------------===*/

EXPORT void kiln_emulator_cluster_arrive(void) {
  if (self()->cluster_arrivals > self()->cluster_waits) {
    fail("arrives at its cluster's barrier twice without waiting");
    stop();
  }
  ++self()->cluster_arrivals;
}

EXPORT void kiln_emulator_cluster_wait(void) {
  if (self()->cluster_arrivals == self()->cluster_waits) {
    fail("waits for its cluster without having arrived");
    stop();
  }
  if (machine.cluster_phase < self()->cluster_arrivals)
    wait_at(AT_CLUSTER, 0);
  ++self()->cluster_waits;
}

/* Threads that have ended are not waited for. */
int finish_cluster(void) {
  unsigned next = machine.cluster_phase + 1, there = 0;
  for (unsigned rank = 0; rank < machine.cluster; ++rank)
    for (unsigned i = 0; i < machine.num_threads; ++i) {
      const struct thread *thread = &machine.blocks[rank].threads[i];
      if (thread->state != DONE && thread->cluster_arrivals < next)
        return 0;
      there += thread->state != DONE;
    }
  if (!there)
    return 0;
  machine.cluster_phase = next;
  for (unsigned rank = 0; rank < machine.cluster; ++rank)
    for (unsigned i = 0; i < machine.num_threads; ++i)
      if (machine.blocks[rank].threads[i].state == AT_CLUSTER)
        machine.blocks[rank].threads[i].state = READY;
  return 1;
}
