// Measures kernels in child processes.
//
// A child goes through the kernels from some candidate on, and writes what it does to a pipe, before
// it does it: so whatever ends the child, the parent knows what did. A child that crashes in a
// candidate's first run, or is killed since that takes too long, has a successor that leaves the
// candidate out. The last child times runs of the model.
#include "Worker.h"
#include "Bench.h"
#include "Gpu.h"
#include "Replay.h"
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using namespace kiln;
using namespace kiln::tune;

namespace {

enum class Event : int32_t {
  Loaded,  // the library
  Try,     // `candidate` of `kernel` runs for the first time
  Failed,  // it cannot be used: text
  Time,    // what is left is timed
  Ratio,   // of a candidate: number
  Seconds, // of the first candidate: number
  Best,    // candidate
  Refused, // nothing can be measured of the kernel: text
  Broken,  // nothing can be measured at all: text
  Done,    // with the kernel
  Restart, // this process can measure no more, but another one can
};

struct Message {
  Event event;
  int32_t kernel = 0, candidate = 0;
  int32_t textBytes = 0; // of the text that follows
  double number = 0;
};

constexpr int32_t mostText = 1000;

/// The child's end of the pipe.
class Reporter {
public:
  explicit Reporter(int pipe) : pipe(pipe) {}

  void send(Event event, size_t kernel = 0, size_t candidate = 0, double number = 0,
            StringRef text = {}) const {
    text = text.take_front(mostText);
    Message message = {event, static_cast<int32_t>(kernel), static_cast<int32_t>(candidate),
                       static_cast<int32_t>(text.size()), number};
    std::string bytes(reinterpret_cast<const char *>(&message), sizeof(message));
    bytes += text;
    for (size_t at = 0; at < bytes.size();) {
      ssize_t written = write(pipe, bytes.data() + at, bytes.size() - at);
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        _exit(1); // the parent is gone
      at += static_cast<size_t>(written);
    }
  }

private:
  int pipe;
};

class Measurement {
public:
  Measurement(const tuning::Manifest &manifest, const Options &options,
              function_ref<void(StringRef)> onKernel)
      : manifest(manifest), options(options), onKernel(onKernel) {
    for (const tuning::Kernel &kernel : manifest.kernels) {
      tuning::KernelResult &result = results.emplace_back();
      result.name = kernel.name;
      result.key = kernel.key;
      for (const tuning::Candidate &candidate : kernel.candidates)
        result.candidates.push_back({candidate.schedule, 0, ""});
    }
  }

  Expected<std::vector<tuning::KernelResult>> run() {
    while (next < results.size())
      if (Error error = runChild())
        return error;
    isReplay =
        any_of(results, [](const tuning::KernelResult &result) { return result.best != 0; }) &&
        !manifest.sequence.empty();
    if (isReplay) {
      next = 0;
      if (Error error = runChild())
        return error;
    }
    return std::move(results);
  }

private:
  Error runChild() {
    int ends[2];
    if (pipe(ends) != 0)
      return createStringError(errnoAsErrorCode(), "cannot make a pipe");
    fflush(nullptr);
    pid_t parent = getpid(), child = fork();
    if (child < 0)
      return createStringError(errnoAsErrorCode(), "cannot start a process");
    if (child == 0) {
      close(ends[0]);
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent)
        work(Reporter(ends[1]));
      _exit(0);
    }
    close(ends[1]);
    bool inTime = listen(ends[0]);
    close(ends[0]);
    if (!inTime)
      kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!broken.empty())
      return createStringError(broken);
    if (std::exchange(isRestart, false))
      return Error::success();
    if (next < results.size() && isReplay)
      return createStringError("in a run of the model " +
                               (inTime ? describe(status) : "it takes too long"));
    if (next < results.size())
      blame(inTime ? describe(status) : "it takes too long");
    if (!isLoaded)
      return createStringError("cannot load it: " + describe(status));
    return Error::success();
  }

  static std::string describe(int status) {
    if (WIFSIGNALED(status))
      return std::string("it crashes (") + strsignal(WTERMSIG(status)) + ")";
    return "it ends the process";
  }

  /// Whatever the child did last has ended it.
  void blame(const std::string &reason) {
    tuning::KernelResult &result = results[next];
    if (trying && *trying != 0) {
      result.candidates[*trying].failure = reason;
    } else {
      result.failure = reason;
      finish();
    }
    trying.reset();
  }

  void finish() {
    ++next;
    trying.reset();
  }

  /// Takes in what the child reports until it ends; false: it is too slow.
  bool listen(int pipe) {
    Message message;
    while (true) {
      // Timing is a number of runs that the first ones of all candidates say enough of.
      double seconds = !isLoaded ? 60
                       : trying  ? options.trialSeconds
                                 : 60 + 20 * options.kernelSeconds;
      pollfd descriptor = {pipe, POLLIN, 0};
      int ready = poll(&descriptor, 1, static_cast<int>(seconds * 1e3));
      if (ready < 0 && errno == EINTR)
        continue;
      if (ready <= 0)
        return false;
      if (!read(pipe, &message, sizeof(message)))
        return true;
      // Read from a process that a candidate may have ruined.
      if (message.textBytes < 0 || message.textBytes > mostText || message.candidate < 0)
        return true;
      bool isOfKernel = message.event != Event::Loaded && message.event != Event::Broken &&
                        message.event != Event::Restart;
      if (isOfKernel && (next >= results.size() ||
                         static_cast<size_t>(message.candidate) >= results[next].candidates.size()))
        return true;
      std::string text(static_cast<size_t>(message.textBytes), '\0');
      if (!read(pipe, text.data(), text.size()))
        return true;
      take(message, text);
    }
  }

  static bool read(int pipe, void *to, size_t bytes) {
    for (auto *at = static_cast<char *>(to); bytes != 0;) {
      ssize_t got = ::read(pipe, at, bytes);
      if (got < 0 && errno == EINTR)
        continue;
      if (got <= 0)
        return false;
      at += got;
      bytes -= static_cast<size_t>(got);
    }
    return true;
  }

  void take(const Message &message, const std::string &text) {
    if (message.event == Event::Loaded) {
      isLoaded = true;
      return;
    }
    if (message.event == Event::Broken) {
      broken = text;
      return;
    }
    if (message.event == Event::Restart) {
      isRestart = true;
      trying.reset();
      return;
    }
    tuning::KernelResult &result = results[next];
    tuning::Outcome &outcome = result.candidates[static_cast<size_t>(message.candidate)];
    switch (message.event) {
    case Event::Try:
      if (message.candidate == 0 && !trying)
        onKernel(result.name);
      trying = message.candidate;
      break;
    case Event::Failed:
      outcome.failure = text;
      break;
    case Event::Time:
      trying.reset();
      break;
    case Event::Ratio:
      outcome.ratio = message.number;
      break;
    case Event::Seconds:
      result.seconds = message.number;
      break;
    case Event::Best:
      result.best = message.candidate;
      break;
    case Event::Refused:
      result.failure = text;
      break;
    default:
      finish();
      break;
    }
  }

  //===-- The child -------------------------------------------------------------------------===//

  void work(const Reporter &reporter) {
    Expected<Library> library = Library::load(options.bundle, options.threads);
    if (!library)
      return reporter.send(Event::Broken, 0, 0, 0, toString(library.takeError()));
    Expected<std::unique_ptr<Machine>> opened =
        options.onGpu ? openGpu() : makeHost(library->isAlone());
    if (!opened)
      return reporter.send(Event::Broken, 0, 0, 0, toString(opened.takeError()));
    machine = std::move(*opened);
    reporter.send(Event::Loaded);
    if (isReplay)
      return replay(*library, reporter);
    for (size_t k = next; k < results.size(); ++k) {
      if (Error error = measureKernel(k, *library, reporter))
        reporter.send(Event::Refused, k, 0, 0, toString(std::move(error)));
      reporter.send(Event::Done, k);
      restartIfBroken(reporter);
    }
  }

  /// A kernel that has failed on a GPU leaves a process that cannot use it any more.
  void restartIfBroken(const Reporter &reporter) {
    if (!machine->isBroken())
      return;
    reporter.send(Event::Restart);
    _exit(0);
  }

  void replay(const Library &library, const Reporter &reporter) {
    Replay replay(manifest, library, *machine, results);
    replay.run(options.kernelSeconds);
    if (machine->isBroken())
      return reporter.send(Event::Broken, 0, 0, 0, "in a run of the model the GPU failed");
    for (auto [k, result] : enumerate(results)) {
      auto best = static_cast<size_t>(result.best);
      if (best) {
        reporter.send(Event::Ratio, k, best, replay.getRatio(k));
        reporter.send(Event::Seconds, k, 0, replay.getSeconds(k));
        reporter.send(Event::Best, k, replay.isWon(k) ? best : 0);
      }
      reporter.send(Event::Done, k);
    }
  }

  Error measureKernel(size_t k, const Library &library, const Reporter &reporter) {
    const tuning::Kernel &kernel = manifest.kernels[k];
    Expected<std::unique_ptr<Bench>> bench =
        Bench::create(kernel, library, *machine, manifest.weightBytes);
    if (!bench)
      return bench.takeError();
    SmallVector<size_t> usable;
    for (size_t i = 0; i < kernel.candidates.size(); ++i) {
      if (!results[k].candidates[i].failure.empty())
        continue; // it has ended a former child
      reporter.send(Event::Try, k, i);
      Error error = (*bench)->tryOut(i);
      if (error && i == 0)
        return error;
      if (!error) {
        usable.push_back(i);
        continue;
      }
      reporter.send(Event::Failed, k, i, 0, toString(std::move(error)));
      restartIfBroken(reporter);
    }
    reporter.send(Event::Time, k);
    if (!manifest.sequence.empty() && kernel.candidates.size() <= 2) {
      reporter.send(Event::Best, k, usable.back());
      return Error::success();
    }
    Timing timing = (*bench)->time(usable, options.kernelSeconds);
    if (machine->isBroken())
      return createStringError("the GPU failed while it was timed");
    for (size_t i : usable)
      reporter.send(Event::Ratio, k, i, timing.ratios[i]);
    reporter.send(Event::Seconds, k, 0, timing.seconds);
    reporter.send(Event::Best, k, timing.best);
    return Error::success();
  }

  const tuning::Manifest &manifest;
  const Options &options;
  function_ref<void(StringRef)> onKernel;
  std::vector<tuning::KernelResult> results;
  size_t next = 0; // the first kernel that is not done
  std::optional<int32_t> trying;
  bool isLoaded = false, isReplay = false, isRestart = false;
  std::unique_ptr<Machine> machine; // the child's
  std::string broken;
};

} // namespace

Expected<std::vector<tuning::KernelResult>> tune::measure(const tuning::Manifest &manifest,
                                                          const Options &options,
                                                          function_ref<void(StringRef)> onKernel) {
  return Measurement(manifest, options, onKernel).run();
}
