/*===- workspace.c - What blocks leave for others ---------------------------===*
 *
 * Blocks run one after the other here, in the order of their numbers, which is the order
 * that a GPU begins them in. Who waits for a flag that is not up yet might wait for ever.
 * Who looks at a flag that says ever more sees by turns what it has said before: on a GPU
 * blocks run at the same time.
 *
 * What a thread writes to the workspace another block sees behind a flag that is raised
 * (with release) by this thread, or by a lane of its warp when they have met, and that the
 * reader has waited for (with acquire), or a lane of the reader's warp before they have met.
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS 8 /* of a block */

#define VALUES 2 /* that a flag may have, from 1 on */

/* Who has done something, when, and how often its warp had met before. */
struct event {
  unsigned block; /* plus 1; 0: nobody in this launch */
  unsigned thread, meetings;
  unsigned long time;
};

static struct event *writers; /* of each chunk behind the flags */
static struct event *raised;  /* of each flag, to each value */
static unsigned long ticks;
static struct event counted; /* by the block that has come last */
static unsigned num_counted, num_looks, num_states, counted_barriers;

static struct event now(void) {
  return (struct event){machine.block->number + 1, machine.current,
                        machine.block->threads[machine.current].meetings, ++ticks};
}

void begin_workspace(void) {
  machine.workspace = 0;
  machine.workspace_bytes = machine.flag_bytes = 0;
  counted.block = 0;
  num_counted = num_looks = num_states = 0;
}

/* Every thread names it; `each` bytes of each block, or `all` together, are behind the flags. */
EXPORT void kiln_emulator_workspace(void *address, int64_t flags, int64_t each, int64_t all) {
  if (machine.workspace)
    return;
  int64_t bytes = flags + each * machine.num_blocks + all;
  kiln_emulator_buffer(address, bytes);
  machine.workspace = (uintptr_t)address;
  machine.flag_bytes = (size_t)flags;
  machine.workspace_bytes = (size_t)bytes;
  raised = calloc(machine.flag_bytes / 4 * VALUES, sizeof *raised);
  writers = calloc((machine.workspace_bytes - machine.flag_bytes) / CHUNK + 1, sizeof *writers);
  if (!raised || !writers)
    abort();
}

int is_workspace(uintptr_t address) {
  return address - machine.workspace < machine.workspace_bytes;
}

static uint32_t *at_flag(void *address, const char *what) {
  uintptr_t offset = (uintptr_t)address - machine.workspace;
  if (!is_workspace((uintptr_t)address) || offset >= machine.flag_bytes || offset % 4) {
    fail("%s a flag that is none", what);
    stop();
  }
  return (uint32_t *)((uintptr_t)address & ~EMULATOR_DEVICE_BIT);
}

static struct event *event_of(const void *flag, unsigned value) {
  return &raised[((uintptr_t)flag - (machine.workspace & ~EMULATOR_DEVICE_BIT)) / 4 * VALUES +
                 value - 1];
}

/* This thread has seen the flag at this value. */
static void note_waited(const uint32_t *flag, unsigned value) {
  struct thread *self = &machine.block->threads[machine.current];
  if (self->num_waited_flags == MAX_WAITED) {
    fail("waits for more than %d flags", MAX_WAITED);
    stop();
  }
  self->waited_flags[self->num_waited_flags].flag = (unsigned)(event_of(flag, value) - raised);
  self->waited_flags[self->num_waited_flags++].meetings = self->meetings;
}

EXPORT void kiln_emulator_raise_flag(void *address) {
  uint32_t *flag = at_flag(address, "raises");
  if (*flag != 0) {
    fail("raises a flag that is not down");
    stop();
  }
  *flag = 1;
  *event_of(flag, 1) = now();
}

/* Says more than the flag has said before, with release. */
EXPORT void kiln_emulator_publish(void *address, int32_t value) {
  uint32_t *flag = at_flag(address, "publishes a state by");
  if (value < 1 || value > VALUES || *flag >= (uint32_t)value) {
    fail("publishes state %d by a flag that is %u", value, *flag);
    stop();
  }
  *flag = (uint32_t)value;
  *event_of(flag, (unsigned)value) = now();
  ++num_states;
}

/* Waits for a flag that is not zero, with acquire, and returns it. */
EXPORT int32_t kiln_emulator_look(void *address) {
  const uint32_t *flag = at_flag(address, "looks at");
  unsigned value = *flag;
  if (value == 0)
    fail("looks at a flag that no earlier block has raised: it might do so for ever");
  else if (value > VALUES || !event_of(flag, value)->block)
    fail("looks at a flag that has not been set to zero");
  if (machine.failed)
    stop();
  /* As if the block that looks had begun before that one has got so far. */
  const char *looks = getenv("KILN_EMULATOR_LOOKS");
  if (value == VALUES && event_of(flag, 1)->block && !(looks && !strcmp(looks, "0")) &&
      machine.block->number % 40 != 7 && (uintptr_t)address / 4 % 37 != 5)
    value = 1;
  num_looks += value < *flag;
  note_waited(flag, value);
  return (int32_t)value;
}

/* atom.inc, with acquire and release: blocks that have looked at all flags they need. */
EXPORT int32_t kiln_emulator_count_blocks(void *address, int32_t limit) {
  uint32_t *count = at_flag(address, "counts by"), old = *count;
  if (old != num_counted++ || (unsigned)limit + 1 != machine.num_blocks) {
    fail("counts block %u of %d when %u have come of %u", old, limit + 1, num_counted,
         machine.num_blocks);
    stop();
  }
  *count = old >= (uint32_t)limit ? 0 : old + 1;
  if (old == (uint32_t)limit) {
    counted = now();
    counted_barriers = machine.block->num_barriers;
  }
  return (int32_t)old;
}

EXPORT void kiln_emulator_wait_flag(void *address) {
  const uint32_t *flag = at_flag(address, "waits for");
  if (*flag == 0)
    fail("waits for a flag that no earlier block has raised: it might do so for ever");
  else if (*flag != 1)
    fail("waits for a flag that has not been set to zero");
  if (machine.failed)
    stop();
  note_waited(flag, 1);
}

/* Whether a lane has waited for a flag that says what has been written, before its warp has met so
 * many times. */
static int has_seen(const struct thread *lane, const struct event *write, unsigned meetings) {
  for (unsigned i = 0; i < lane->num_waited_flags; ++i) {
    const struct event *flag = &raised[lane->waited_flags[i].flag];
    if (lane->waited_flags[i].meetings < meetings && flag->block == write->block &&
        flag->thread / WARP == write->thread / WARP &&
        (flag->thread == write->thread ? write->time < flag->time
                                       : write->meetings < flag->meetings))
      return 1;
  }
  return 0;
}

/* Whether this thread knows of what has been written. */
static int knows(const struct thread *self, const struct event *write) {
  if (write->block == machine.block->number + 1 || has_seen(self, write, UINT_MAX))
    return 1;
  const struct thread *warp = &machine.block->threads[machine.current / WARP * WARP];
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (has_seen(&warp[lane], write, self->meetings))
      return 1;
  return 0;
}

void note_workspace(uintptr_t begin, size_t bytes, int32_t writes) {
  struct thread *self = &machine.block->threads[machine.current];
  size_t offset = begin - machine.workspace;
  if (offset < machine.flag_bytes) {
    /* It is lowered by a thread that has waited for it, when its warp has met since, or by the
     * block that has been counted last. */
    int is_last =
        counted.block == machine.block->number + 1 &&
        (counted.thread == machine.current || counted_barriers < machine.block->num_barriers);
    int has_waited = is_last, has_met = is_last;
    for (unsigned i = 0; i < self->num_waited_flags; ++i)
      if (self->waited_flags[i].flag / VALUES == offset / 4) {
        has_waited = 1;
        has_met |= self->waited_flags[i].meetings < self->meetings;
      }
    if (!writes || !has_waited)
      fail("%s a flag that it has not waited for", writes ? "lowers" : "reads");
    else if (!has_met)
      fail("lowers a flag that other lanes may not have seen");
    if (machine.failed)
      stop();
    return;
  }
  offset -= machine.flag_bytes;
  for (size_t i = offset / CHUNK; i <= (offset + bytes - 1) / CHUNK; ++i) {
    if (!writers[i].block && !writes)
      fail("reads what no block has left");
    else if (writers[i].block && !knows(self, &writers[i]))
      fail("%s what block %u has written without waiting for it to be released",
           writes ? "overwrites" : "reads", writers[i].block - 1);
    if (machine.failed)
      stop();
    if (writes)
      writers[i] = now();
  }
}

void end_workspace(void) {
  if (!machine.workspace)
    return;
  const uint32_t *flags = (const uint32_t *)(machine.workspace & ~EMULATOR_DEVICE_BIT);
  machine.block = &machine.blocks[0];
  machine.block->number = machine.current = 0;
  for (size_t i = 0; i < machine.flag_bytes / 4 && !machine.failed; ++i)
    if (flags[i] != 0)
      fail("leaves flag %zu up for the next kernel", i);
  unsigned blocks = 0;
  for (size_t i = 0; i < machine.flag_bytes / 4; i += FLAGS)
    blocks += raised[i * VALUES].block != 0;
  if (num_states)
    record("%s publishes %u states and looks past %u\n", machine.name, num_states, num_looks);
  else if (blocks)
    record("%s leaves the sums of %u blocks\n", machine.name, blocks);
  free(raised);
  free(writers);
  raised = writers = NULL;
}
