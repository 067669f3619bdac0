/*===- workspace.c - What blocks leave for others ---------------------------===*
 *
 * Blocks run one after the other here, in the order of their numbers, which is the order
 * that a GPU begins them in. Who waits for a flag that is not up yet might wait for ever.
 *
 * What a thread writes to the workspace another block sees behind a flag that is raised
 * (with release) by this thread, or by a lane of its warp when they have met, and that the
 * reader has waited for (with acquire).
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define FLAGS 8 /* of a block */

/* Who has done something, and how often its warp had met before. */
struct event {
  unsigned block; /* plus 1; 0: nobody in this launch */
  unsigned thread, meetings;
};

static struct event *writers; /* of each chunk behind the flags */
static struct event *raised;  /* of each flag */

static struct event now(void) {
  return (struct event){machine.block->number + 1, machine.current,
                        machine.block->threads[machine.current].meetings};
}

void begin_workspace(void) {
  machine.workspace = 0;
  machine.workspace_bytes = machine.flag_bytes = 0;
}

/* Every thread names it; `bytes` of each block are behind the flags. */
EXPORT void kiln_emulator_workspace(void *address, int64_t flags, int64_t bytes) {
  if (machine.workspace)
    return;
  kiln_emulator_buffer(address, flags + bytes * machine.num_blocks);
  machine.workspace = (uintptr_t)address;
  machine.flag_bytes = (size_t)flags;
  machine.workspace_bytes = (size_t)(flags + bytes * machine.num_blocks);
  raised = calloc(machine.flag_bytes / 4, sizeof *raised);
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

static struct event *event_of(const void *flag) {
  return &raised[((uintptr_t)flag - (machine.workspace & ~EMULATOR_DEVICE_BIT)) / 4];
}

EXPORT void kiln_emulator_raise_flag(void *address) {
  uint32_t *flag = at_flag(address, "raises");
  if (*flag != 0) {
    fail("raises a flag that is not down");
    stop();
  }
  *flag = 1;
  *event_of(flag) = now();
}

EXPORT void kiln_emulator_wait_flag(void *address) {
  const uint32_t *flag = at_flag(address, "waits for");
  struct thread *self = &machine.block->threads[machine.current];
  if (*flag == 0)
    fail("waits for a flag that no earlier block has raised: it might do so for ever");
  else if (*flag != 1)
    fail("waits for a flag that has not been set to zero");
  else if (self->num_waited_flags == MAX_WAITED)
    fail("waits for more than %d flags", MAX_WAITED);
  if (machine.failed)
    stop();
  self->waited_flags[self->num_waited_flags].flag = (unsigned)(event_of(flag) - raised);
  self->waited_flags[self->num_waited_flags++].meetings = self->meetings;
}

/* Whether this thread knows of what has been written. */
static int knows(const struct thread *self, const struct event *write) {
  if (write->block == machine.block->number + 1)
    return 1;
  for (unsigned i = 0; i < self->num_waited_flags; ++i) {
    const struct event *flag = &raised[self->waited_flags[i].flag];
    if (flag->block == write->block && flag->thread / WARP == write->thread / WARP &&
        (flag->thread == write->thread || write->meetings < flag->meetings))
      return 1;
  }
  return 0;
}

void note_workspace(uintptr_t begin, size_t bytes, int32_t writes) {
  struct thread *self = &machine.block->threads[machine.current];
  size_t offset = begin - machine.workspace;
  if (offset < machine.flag_bytes) {
    /* It is lowered by a thread that has waited for it, when its warp has met since. */
    int has_waited = 0, has_met = 0;
    for (unsigned i = 0; i < self->num_waited_flags; ++i)
      if (self->waited_flags[i].flag == offset / 4) {
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
    blocks += raised[i].block != 0;
  if (blocks)
    record("%s leaves the sums of %u blocks\n", machine.name, blocks);
  free(raised);
  free(writers);
  raised = writers = NULL;
}
