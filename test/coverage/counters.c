/* Preloaded into tools that were built with -fsanitize=fuzzer-no-link (build-asan): as a process ends, what its counters of basic blocks
 * say is added to $KILN_COVERAGE/NAME.counters, a byte for each; NAME.blocks has their addresses in the file. NAME is that of the
 * program. lines.py reads them. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned char *counters, *pool;
static const struct block {
  uintptr_t address, flags;
} *blocks;
static size_t size;
static uintptr_t base;

/* The section's place in memory. The program's own headers have no sections: its file does. */
static int find_counters(struct dl_phdr_info *info, size_t bytes, void *unused) {
  (void)bytes, (void)unused;
  int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  off_t end = file < 0 ? 0 : lseek(file, 0, SEEK_END);
  const char *image =
      end > 0 ? mmap(NULL, (size_t)end, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  if (file >= 0)
    close(file);
  if (image == MAP_FAILED)
    return 1;
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
  const char *names = image + sections[header->e_shstrndx].sh_offset;
  base = info->dlpi_addr;
  for (int i = 0; i < header->e_shnum; ++i)
    if (strcmp(names + sections[i].sh_name, "__sancov_cntrs") == 0) {
      counters = (unsigned char *)(base + sections[i].sh_addr);
      size = sections[i].sh_size;
    } else if (strcmp(names + sections[i].sh_name, "__sancov_pcs") == 0) {
      blocks = (const struct block *)(base + sections[i].sh_addr);
    }
  munmap((void *)(uintptr_t)image, (size_t)end);
  return 1; /* the program is the first */
}

static void write_blocks(const char *folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.blocks", folder, program_invocation_short_name);
  FILE *file = fopen(path, "wbx");
  for (size_t i = 0; file && i < size; ++i) {
    uint64_t address = blocks[i].address - base;
    fwrite(&address, sizeof address, 1, file);
  }
  if (file)
    fclose(file);
}

/* Already at the start: later the program may have locked itself up. */
__attribute__((constructor)) static void open_pool(void) {
  const char *folder = getenv("KILN_COVERAGE");
  char path[4096];
  if (!folder)
    return;
  dl_iterate_phdr(find_counters, NULL);
  if (!size || !blocks)
    return;
  write_blocks(folder);
  snprintf(path, sizeof path, "%s/%s.counters", folder, program_invocation_short_name);
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0)
    return;
  if (ftruncate(file, (off_t)size) == 0)
    pool = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
}

__attribute__((destructor)) static void add_counters(void) {
  if (pool && pool != MAP_FAILED)
    for (size_t i = 0; i < size; ++i)
      if (counters[i])
        pool[i] = 1;
}

/* Tools end without cleaning up, which runs no destructors. */
void _exit(int status) {
  add_counters();
  for (;;)
    syscall(SYS_exit_group, status);
}
