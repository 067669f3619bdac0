// --sandbox: Landlock says which files a process may open, a seccomp filter which system calls it may make.
//
// The filter is a list of what a compilation needs, so that calls of newer kernels are not among it. What is not listed fails with
// EPERM; a call of another architecture's numbering ends the process. Both hold for good, for threads made later too.
#include "Sandbox.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Errno.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace llvm;
using namespace kiln;

static Error fail(const Twine &what, int error = errno) {
  return createStringError("--sandbox: " + what + ": " + sys::StrError(error));
}

//===-- Files -------------------------------------------------------------------------------===//

// Debian's headers are those of Linux 6.1.
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

/// Everything that the first version of Landlock knows, which is Linux 5.13's.
static constexpr uint64_t firstRights =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
    LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM;

static constexpr uint64_t folderRights =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_DIR |
    LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE;

static int landlockVersion() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static Error allow(int rules, const std::string &path, uint64_t rights, bool isFolder) {
  int file = open(path.c_str(), O_PATH | O_CLOEXEC | (isFolder ? O_DIRECTORY : 0));
  if (file < 0)
    return fail("cannot open '" + path + "'");
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = rights;
  rule.parent_fd = file;
  int status = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  int error = errno;
  close(file);
  return status == 0 ? Error::success() : fail("cannot allow '" + path + "'", error);
}

static Error restrictFiles(const SandboxFiles &files) {
  int version = landlockVersion();
  landlock_ruleset_attr handled = {};
  handled.handled_access_fs = firstRights;
  if (version >= 2)
    handled.handled_access_fs |= LANDLOCK_ACCESS_FS_REFER;
  // Without it the filter refuses to truncate what is not open for writing.
  if (version >= 3)
    handled.handled_access_fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
  int rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
  if (rules < 0)
    return fail("cannot restrict files");
  for (const std::string &path : files.readable)
    if (Error error = allow(rules, path, LANDLOCK_ACCESS_FS_READ_FILE, /*isFolder=*/false))
      return error;
  for (const std::string &path : files.writableFolders)
    if (Error error =
            allow(rules, path, folderRights & handled.handled_access_fs, /*isFolder=*/true))
      return error;
  if (syscall(SYS_landlock_restrict_self, rules, 0) != 0)
    return fail("cannot restrict files");
  close(rules);
  return Error::success();
}

/// The libraries of this process, which a model with `--link` is linked against.
static std::vector<std::string> getLibraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *found) {
        if (sys::path::is_absolute(info->dlpi_name))
          static_cast<std::vector<std::string> *>(found)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

Expected<SandboxFiles> kiln::getSandboxFiles(const CompileOptions &options) {
  SandboxFiles files;
  auto addFolderOf = [&](const std::string &file) {
    StringRef folder = sys::path::parent_path(file);
    if (!file.empty() && file != "-")
      files.writableFolders.push_back(folder.empty() ? "." : folder.str());
  };
  files.readable = {options.input};
  for (const EntryOption &entry : options.entries)
    files.readable.push_back(entry.file);
  files.readable.insert(files.readable.end(), options.linkFiles.begin(), options.linkFiles.end());
  if (!options.linkFiles.empty())
    for (std::string &library : getLibraries())
      files.readable.push_back(std::move(library));
  for (const std::string &file :
       {options.report.compare, options.report.profile,
        options.tuning.mode == tuning::Mode::ReadResults ? options.tuning.results : ""})
    if (!file.empty())
      files.readable.push_back(file);
  for (const char *file : {"/proc/cpuinfo", "/sys/devices/system/cpu/online"})
    if (sys::fs::exists(file))
      files.readable.emplace_back(file);
  addFolderOf(options.output);
  addFolderOf(options.report.file);
  addFolderOf(options.remarks.file);
  if (!options.saveTemps.empty()) {
    if (std::error_code error = sys::fs::create_directories(options.saveTemps))
      return createStringError("cannot create '" + options.saveTemps + "': " + error.message());
    files.writableFolders.push_back(options.saveTemps);
  }
  return files;
}

//===-- System calls ------------------------------------------------------------------------===//

namespace {

/// A program of the kernel's that looks at a call's number and arguments.
class Filter {
public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    emit(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
    emit(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
  }

  void allow(uint32_t call) {
    emit(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }

  void fail(uint32_t call, int error) {
    emit(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
  }

  /// Allows a call where the lower half of an argument, under a mask, has this value and the upper half, unless
  /// it means nothing, is 0.
  void allowIf(uint32_t call, unsigned argument, uint32_t mask, uint32_t value) {
    uint32_t place = offsetof(seccomp_data, args) + argument * sizeof(uint64_t);
    emit(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
    load(place);
    emit(BPF_ALU | BPF_AND | BPF_K, mask);
    emit(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    load(offsetof(seccomp_data, nr));
  }

  /// To this process alone.
  bool install() {
    emit(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    sock_fprog program = {};
    program.len = code.size();
    program.filter = code.data();
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

private:
  void load(uint32_t offset) { emit(BPF_LD | BPF_W | BPF_ABS, offset); }
  void emit(uint16_t operation, uint32_t value, uint8_t ifTrue = 0, uint8_t ifFalse = 0) {
    code.push_back({operation, ifTrue, ifFalse, value});
  }

  SmallVector<sock_filter> code;
};

} // namespace

static bool restrictCalls() {
  Filter filter;
  for (uint32_t call :
       {// Threads, time, signals to oneself
        SYS_futex, SYS_gettid, SYS_getpid, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq,
        SYS_set_tid_address, SYS_arch_prctl, SYS_sched_yield, SYS_sched_getaffinity, SYS_exit,
        SYS_exit_group, SYS_nanosleep, SYS_clock_nanosleep, SYS_clock_gettime, SYS_clock_getres,
        SYS_gettimeofday, SYS_time, SYS_getrusage, SYS_times, SYS_restart_syscall, SYS_pause,
        SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_sigaltstack,
        SYS_getcpu,
        // Memory
        SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_msync,
        SYS_membarrier, SYS_memfd_create, SYS_getrandom, SYS_sysinfo,
        // Files, of which Landlock says which
        SYS_read, SYS_readv, SYS_pread64, SYS_write, SYS_writev, SYS_pwrite64, SYS_lseek, SYS_close,
        SYS_dup, SYS_pipe2, SYS_fstat, SYS_newfstatat, SYS_stat, SYS_lstat, SYS_statx, SYS_fstatfs,
        SYS_access, SYS_faccessat, SYS_faccessat2, SYS_readlink, SYS_readlinkat, SYS_getcwd,
        SYS_getdents64, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_unlink,
        SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_mkdir, SYS_mkdirat, SYS_umask,
        SYS_fadvise64,
        // Who one is
        SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_uname})
    filter.allow(call);
  filter.fail(SYS_clone3, ENOSYS); // its flags cannot be seen; libc then calls clone
  filter.allowIf(SYS_clone, 0, CLONE_THREAD, CLONE_THREAD);
  // Files that are opened for reading are not truncated, which older kernels' Landlock leaves open.
  for (auto [call, argument] : {std::pair(SYS_open, 1), std::pair(SYS_openat, 2)}) {
    filter.allowIf(call, argument, O_TRUNC, 0);
    filter.allowIf(call, argument, O_ACCMODE, O_WRONLY);
    filter.allowIf(call, argument, O_ACCMODE, O_RDWR);
  }
  filter.allowIf(SYS_tgkill, 0, UINT32_MAX, getpid());
  filter.allowIf(SYS_prlimit64, 0, UINT32_MAX, 0);
  filter.allowIf(SYS_prctl, 0, UINT32_MAX, PR_SET_NAME);
  filter.allowIf(SYS_fcntl, 1, UINT32_MAX, F_GETFL);
  filter.allowIf(SYS_fcntl, 1, UINT32_MAX, F_GETFD);
  filter.allowIf(SYS_fcntl, 1, UINT32_MAX, F_SETFD);
  filter.allowIf(SYS_fcntl, 1, UINT32_MAX, F_DUPFD_CLOEXEC);
  filter.allowIf(SYS_ioctl, 1, UINT32_MAX, TCGETS);
  filter.allowIf(SYS_ioctl, 1, UINT32_MAX, TIOCGWINSZ);
  return filter.install();
}

//===-- Both --------------------------------------------------------------------------------===//

Error kiln::checkSandbox() {
#ifndef __x86_64__
  return createStringError("--sandbox: this machine's processor is not one that it knows");
#endif
  if (landlockVersion() < 1)
    return fail("this kernel has no Landlock (Linux 5.13, and `landlock` in the list of "
                "/sys/kernel/security/lsm)");
  if (prctl(PR_GET_SECCOMP) < 0 || (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr) != 0 &&
                                    errno != EFAULT && errno != EACCES))
    return fail("this kernel has no seccomp filters");
  return Error::success();
}

Error kiln::enterSandbox(const SandboxFiles &files) {
  if (Error error = checkSandbox())
    return error;
  if (syscall(SYS_close_range, 3, ~0U, 0) != 0)
    return fail("cannot close what is open");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail("cannot give up privileges");
  if (Error error = restrictFiles(files))
    return error;
  if (!restrictCalls())
    return fail("cannot restrict system calls");
  return Error::success();
}
