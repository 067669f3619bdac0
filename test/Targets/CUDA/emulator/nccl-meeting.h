/*===- nccl-meeting.h - How processes of the emulated NCCL meet -------------===*/
#ifndef KILN_TEST_EMULATOR_NCCL_MEETING_H
#define KILN_TEST_EMULATOR_NCCL_MEETING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANKS = 8 };

/* What a process says of a collective. */
struct statement {
  int kind, type, op, root;
  uint64_t count;
  uint64_t sent[MAX_RANKS], taken[MAX_RANKS]; /* bytes of an exchange, by peer */
};

/* Memory that all processes of a communicator have. */
struct region {
  atomic_uint joined, opened, arrived, generation;
  struct statement statements[MAX_RANKS];
};

struct meeting {
  struct region *region;
  char path[160];
  int rank, ranks;
  int files[MAX_RANKS]; /* where each process leaves its data */
  bool is_open;
  atomic_bool is_aborted;
};

/* Returns false if the process cannot write there. */
bool join_meeting(struct meeting *meeting, const char *path, int rank, int ranks);
/* Whether all have come. */
bool is_complete(struct meeting *meeting);
void abort_meeting(struct meeting *meeting);

/* Leaves a statement and data for the others, and waits for theirs. False: aborted. Who says
 * something else than the others waits for ever. */
bool meet(struct meeting *meeting, const struct statement *statement, const void *data,
          size_t bytes);
/* In a meeting. */
const struct statement *statement_of(const struct meeting *meeting, int rank);
void read_data(const struct meeting *meeting, int rank, void *data, size_t bytes, size_t offset);
/* Waits until all have read. False: aborted. */
bool part(struct meeting *meeting);

#endif /* KILN_TEST_EMULATOR_NCCL_MEETING_H */
