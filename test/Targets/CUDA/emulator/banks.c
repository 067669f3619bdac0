/*===- banks.c - How long accesses of shared memory take --------------------===*
 *
 * Shared memory has 32 banks of 4 bytes, and lanes of a warp that ask one bank for different words
 * at the same time wait for each other. Of the first block of a launch, what the lanes of a warp
 * access in the same order is taken for one access of the warp: how often banks answer, and how
 * often they would have to if no two lanes met, goes to the log.
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"

#include <string.h>

#define BANKS 32
#define MAX_ACCESSES 1024 /* of a thread; those behind them are not counted */

static struct access {
  uint32_t lanes; /* that have come */
  int32_t bytes, writes, is_mixed;
  uint32_t words[WARP]; /* number of the first */
} accesses[MAX_THREADS / WARP][MAX_ACCESSES];
static unsigned counts[MAX_THREADS]; /* of a thread so far */

void begin_banks(void) {
  if (machine.block->number)
    return;
  memset(accesses, 0, machine.num_threads / WARP * sizeof accesses[0]);
  memset(counts, 0, sizeof counts);
}

void note_banks(uintptr_t address, int64_t bytes, int32_t writes) {
  unsigned lane = machine.current % WARP;
  if (machine.block->number || counts[machine.current] == MAX_ACCESSES)
    return;
  struct access *access = &accesses[machine.current / WARP][counts[machine.current]++];
  if (!access->lanes) {
    access->bytes = (int32_t)bytes;
    access->writes = writes;
  }
  access->is_mixed |= access->bytes != bytes || access->writes != writes;
  access->lanes |= 1u << lane;
  access->words[lane] = (uint32_t)((address - (uintptr_t)machine.block->shared) / 4);
}

/* How often the bank that is asked most answers `count` lanes from `first` on. */
static unsigned count_answers(const struct access *access, unsigned first, unsigned count) {
  unsigned width = access->bytes < 4 ? 1 : (unsigned)access->bytes / 4, most = 0;
  uint32_t seen[BANKS][WARP];
  unsigned answers[BANKS] = {0};
  for (unsigned lane = first; lane < first + count; ++lane)
    for (unsigned i = 0; access->lanes >> lane & 1 && i < width; ++i) {
      uint32_t word = access->words[lane] + i;
      unsigned bank = word % BANKS, j = 0;
      while (j < answers[bank] && seen[bank][j] != word)
        ++j;
      if (j == answers[bank])
        seen[bank][answers[bank]++] = word;
      most = answers[bank] > most ? answers[bank] : most;
    }
  return most;
}

void end_banks(void) {
  unsigned long least = 0, taken = 0;
  for (unsigned warp = 0; !machine.block->number && warp < machine.num_threads / WARP; ++warp)
    for (unsigned i = 0; i < MAX_ACCESSES && accesses[warp][i].lanes; ++i) {
      const struct access *access = &accesses[warp][i];
      /* Lanes that all banks answer at once. */
      unsigned together = access->bytes <= 4 ? WARP : 4 * WARP / (unsigned)access->bytes;
      for (unsigned lane = 0; lane < WARP && together && !access->is_mixed; lane += together) {
        unsigned answers = count_answers(access, lane, together);
        taken += answers;
        least += answers > 0;
      }
    }
  if (least)
    record("banks %s answer %lu at least %lu\n", machine.name, taken, least);
}
