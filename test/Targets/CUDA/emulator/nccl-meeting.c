/*===- nccl-meeting.c - How processes of the emulated NCCL meet -------------===*
 *
 * A file that all of them map, and one of each for its data. They are gone as soon as all
 * have opened them.
 *
 *===-----------------------------------------------------------------------===*/
#include "nccl-meeting.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void name_file(const struct meeting *meeting, int rank, char *name, size_t size) {
  snprintf(name, size, "%s.%d", meeting->path, rank);
}

bool join_meeting(struct meeting *meeting, const char *path, int rank, int ranks) {
  char name[sizeof meeting->path + 16];
  snprintf(meeting->path, sizeof meeting->path, "%s", path);
  meeting->rank = rank;
  meeting->ranks = ranks;
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof *meeting->region) != 0)
    return false;
  meeting->region =
      mmap(NULL, sizeof *meeting->region, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (meeting->region == MAP_FAILED)
    return false;
  name_file(meeting, rank, name, sizeof name);
  meeting->files[rank] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (meeting->files[rank] < 0)
    return false;
  ++meeting->region->joined;
  return true;
}

static void unlink_all(const struct meeting *meeting) {
  char name[sizeof meeting->path + 16];
  for (int i = 0; i < meeting->ranks; ++i) {
    name_file(meeting, i, name, sizeof name);
    unlink(name);
  }
  unlink(meeting->path);
}

bool is_complete(struct meeting *meeting) {
  char name[sizeof meeting->path + 16];
  if (meeting->is_open)
    return true;
  if (meeting->region->joined < (unsigned)meeting->ranks)
    return false;
  for (int i = 0; i < meeting->ranks; ++i) {
    name_file(meeting, i, name, sizeof name);
    if (i != meeting->rank)
      meeting->files[i] = open(name, O_RDONLY | O_CLOEXEC);
    if (meeting->files[i] < 0)
      abort();
  }
  meeting->is_open = true;
  if (++meeting->region->opened == (unsigned)meeting->ranks)
    unlink_all(meeting);
  return true;
}

void abort_meeting(struct meeting *meeting) {
  meeting->is_aborted = true;
  if (!meeting->is_open)
    unlink_all(meeting);
}

/* Waits for all. */
static bool gather(struct meeting *meeting) {
  struct region *region = meeting->region;
  unsigned generation = region->generation;
  if (++region->arrived == (unsigned)meeting->ranks) {
    region->arrived = 0;
    ++region->generation;
    return !meeting->is_aborted;
  }
  while (region->generation == generation && !meeting->is_aborted)
    usleep(20);
  return !meeting->is_aborted;
}

static bool are_alike(const struct meeting *meeting) {
  const struct statement *all = meeting->region->statements;
  for (int i = 1; i < meeting->ranks; ++i)
    if (all[i].kind != all[0].kind || all[i].type != all[0].type || all[i].op != all[0].op ||
        all[i].root != all[0].root || all[i].count != all[0].count)
      return false;
  for (int i = 0; i < meeting->ranks; ++i)
    for (int j = 0; j < meeting->ranks; ++j)
      if (all[i].sent[j] != all[j].taken[i])
        return false;
  return true;
}

bool meet(struct meeting *meeting, const struct statement *statement, const void *data,
          size_t bytes) {
  meeting->region->statements[meeting->rank] = *statement;
  if (bytes && pwrite(meeting->files[meeting->rank], data, bytes, 0) != (ssize_t)bytes)
    abort();
  if (!gather(meeting))
    return false;
  while (!are_alike(meeting) && !meeting->is_aborted)
    usleep(100);
  return !meeting->is_aborted;
}

const struct statement *statement_of(const struct meeting *meeting, int rank) {
  return &meeting->region->statements[rank];
}

void read_data(const struct meeting *meeting, int rank, void *data, size_t bytes, size_t offset) {
  if (bytes && pread(meeting->files[rank], data, bytes, (off_t)offset) != (ssize_t)bytes)
    abort();
}

bool part(struct meeting *meeting) { return gather(meeting); }
