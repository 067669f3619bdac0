/* Microseconds from starting a program to its first byte of output. Usage: start PROGRAM
 * ARGUMENTS... */
#include "protocol.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv) {
  int output[2], input[2];
  pid_t child;
  char byte;
  posix_spawn_file_actions_t actions;
  if (argc < 2 || pipe(output) || pipe(input) || posix_spawn_file_actions_init(&actions) ||
      posix_spawn_file_actions_adddup2(&actions, input[0], 0) ||
      posix_spawn_file_actions_adddup2(&actions, output[1], 1) ||
      posix_spawn_file_actions_addclose(&actions, input[1]) ||
      posix_spawn_file_actions_addclose(&actions, output[0]))
    die("start", "cannot prepare");
  int64_t start = now_ns();
  if (posix_spawn(&child, argv[1], &actions, NULL, argv + 1, environ))
    die(argv[1], "cannot be started");
  close(output[1]);
  ssize_t got = read(output[0], &byte, 1);
  int64_t end = now_ns();
  close(input[1]); /* the child's commands end */
  close(output[0]);
  int status;
  if (waitpid(child, &status, 0) < 0 || got != 1 || !WIFEXITED(status) || WEXITSTATUS(status))
    die(argv[1], "failed");
  printf("%.1f\n", (double)(end - start) / 1e3);
  return 0;
}
