// Tries in a sandbox what a compiler that a program has taken over would try.
//
//   sandbox-test                            the test, in a folder of its own
//   sandbox-test --without CALL COMMAND...  runs a command on a kernel without landlock or seccomp
#include "../../../tools/aot-compile/Sandbox.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace llvm;
using namespace kiln;

static int failures = 0;

static void expect(bool isRight, StringRef what) {
  if (isRight)
    return;
  errs() << "sandbox-test: " << what << " (" << strerror(errno) << ")\n";
  ++failures;
}

#define WORKS(call) expect((call) >= 0, #call " should work")
#define REFUSED(call)                                                                              \
  expect((call) < 0 && (errno == EPERM || errno == EACCES), #call " should be refused")

static int openAndClose(const std::string &path, int flags) {
  int file = open(path.c_str(), flags, 0600);
  if (file >= 0)
    close(file);
  return file;
}

static void tryFiles(const std::string &folder, const std::string &other) {
  std::string input = other + "/input", secret = other + "/secret";
  WORKS(openAndClose(input, O_RDONLY));
  REFUSED(openAndClose(input, O_RDWR));
  REFUSED(openAndClose(input, O_RDONLY | O_TRUNC));
  REFUSED(truncate(input.c_str(), 0));
  REFUSED(chmod(input.c_str(), 0777));
  REFUSED(openAndClose(secret, O_RDONLY));
  REFUSED(openAndClose(secret, O_WRONLY));
  REFUSED(openAndClose(other + "/new", O_RDWR | O_CREAT));
  REFUSED(openAndClose(other, O_RDONLY | O_DIRECTORY));
  REFUSED(openAndClose("/etc/passwd", O_RDONLY));
  REFUSED(openAndClose("/proc/self/mem", O_RDWR));
  REFUSED(openAndClose("/proc/self/environ", O_RDONLY));
  REFUSED(unlink(secret.c_str()));
  REFUSED(rename(secret.c_str(), (other + "/renamed").c_str()));

  std::string file = folder + "/file", renamed = folder + "/renamed";
  WORKS(openAndClose(file, O_RDWR | O_CREAT | O_EXCL));
  WORKS(openAndClose(file, O_WRONLY | O_TRUNC));
  WORKS(rename(file.c_str(), renamed.c_str()));
  expect(rename(renamed.c_str(), (other + "/moved").c_str()) < 0, "a file leaves the folder");
  expect(rename(secret.c_str(), file.c_str()) < 0, "a file comes into the folder");
  REFUSED(symlink(secret.c_str(), file.c_str()));
  REFUSED(link(secret.c_str(), file.c_str()));
  REFUSED(mkdir((folder + "/folder").c_str(), 0700));
  REFUSED(mknod((folder + "/pipe").c_str(), S_IFIFO | 0600, 0));
  REFUSED(openAndClose(folder + "/link", O_RDONLY)); // to the secret, from before
  WORKS(unlink(renamed.c_str()));
}

static void tryCalls(int inherited) {
  expect(fcntl(inherited, F_GETFD) < 0 && errno == EBADF, "an open file is inherited");
  for (int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
    REFUSED(socket(family, SOCK_STREAM, 0));
  int pair[2];
  REFUSED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  char program[] = "/bin/true", *arguments[] = {program, nullptr};
  REFUSED(execv(program, arguments));
  REFUSED(syscall(SYS_execveat, AT_FDCWD, program, arguments, nullptr, 0));
  REFUSED(fork());
  REFUSED(syscall(SYS_vfork));
  REFUSED(kill(getppid(), 0));
  REFUSED(syscall(SYS_tgkill, getppid(), getppid(), 0));
  REFUSED(ptrace(PTRACE_ATTACH, getppid(), nullptr, nullptr));
  REFUSED(unshare(CLONE_NEWUSER));
  REFUSED(prctl(PR_SET_DUMPABLE, 1));
  REFUSED(syscall(SYS_io_uring_setup, 1, nullptr));
  REFUSED(syscall(SYS_bpf, 0, nullptr, 0));
  REFUSED(syscall(SYS_process_vm_readv, getppid(), nullptr, 0, nullptr, 0, 0));
  REFUSED(syscall(SYS_mount, "none", "/", "tmpfs", 0, nullptr));
  REFUSED(syscall(SYS_open_by_handle_at, AT_FDCWD, nullptr, 0));
  // The numbers of the x32 interface, and one that no kernel has.
  REFUSED(syscall(0x40000000 | SYS_getpid));
  REFUSED(syscall(9999));
  WORKS(syscall(SYS_tgkill, getpid(), gettid(), 0));
  void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WORKS(page == MAP_FAILED ? -1 : 0);
  WORKS(mprotect(page, 4096, PROT_READ | PROT_EXEC)); // kernels that fold constants
  bool isRefused = false;
  std::thread([&] { isRefused = socket(AF_INET, SOCK_STREAM, 0) < 0; }).join();
  expect(isRefused, "a thread has a network");
}

static int runTests() {
  SmallString<128> root;
  if (sys::fs::createUniqueDirectory("sandbox-test", root))
    return 1;
  std::string folder = (root + "/folder").str(), other = (root + "/other").str();
  mkdir(folder.c_str(), 0700);
  mkdir(other.c_str(), 0700);
  for (const char *name : {"/input", "/secret"})
    openAndClose(other + name, O_WRONLY | O_CREAT);
  WORKS(symlink((other + "/secret").c_str(), (folder + "/link").c_str()));
  int inherited = open("/dev/null", O_RDONLY);
  errs().flush();
  pid_t child = fork();
  if (child == 0) {
    if (Error error = enterSandbox({{other + "/input"}, {folder}})) {
      errs() << toString(std::move(error)) << '\n';
      _exit(1);
    }
    tryFiles(folder, other);
    tryCalls(inherited);
    _exit(failures ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  sys::fs::remove_directories(root);
  expect(status == 0, "the child failed");
  return failures ? 1 : 0;
}

static int runWithout(StringRef name, char **command) {
  bool isLandlock = name == "landlock";
  // From prctl only what installs filters, by its first argument.
  sock_filter landlock[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                            {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_landlock_create_ruleset},
                            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
                            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  sock_filter seccomp[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_prctl},
                           {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args)},
                           {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PR_SET_SECCOMP},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EINVAL},
                           {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  ArrayRef<sock_filter> code = isLandlock ? ArrayRef(landlock) : ArrayRef(seccomp);
  sock_fprog filter = {static_cast<unsigned short>(code.size()),
                       const_cast<sock_filter *>(code.data())};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
    return 1;
  execv(command[0], command);
  return 1;
}

int main(int argc, char **argv) {
  if (argc > 3 && StringRef(argv[1]) == "--without")
    return runWithout(argv[2], argv + 3);
  if (Error error = checkSandbox()) {
    errs() << toString(std::move(error)) << '\n';
    return 77;
  }
  return runTests();
}
