// Random programs without PyTorch and without sanitizers, many times as fast as fuzz-program: those of the corpus, mutated, and
// what has been compiled of them, mutated again. The reference interpreter is the oracle, as it is there.
//   mutate-programs COUNT SEED FAILED FILE...
// A program that fails ends the process; FAILED has it then. Prints how many there were. Each run of 1000 begins with the corpus.
#include "fuzz-program.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <csignal>
#include <random>
#include <unistd.h>

using namespace llvm;

enum { MaxSize = 16384, Kept = 200, Seconds = 300 };

/// Inputs that are no JSON do not come up here.
size_t LLVMFuzzerMutate(uint8_t *, size_t size, size_t) { return size; }

static void print(uint64_t seed) {
  outs() << "seeds up to " << seed << ": " << counts.refused + counts.compiled << " programs, "
         << counts.refused << " refused, " << counts.compiled << " compiled, " << counts.compared
         << " compared\n";
  outs().flush();
}

int main(int argc, char **argv) {
  uint64_t count, seed;
  if (argc < 5 || StringRef(argv[1]).getAsInteger(10, count) ||
      StringRef(argv[2]).getAsInteger(10, seed)) {
    errs() << "usage: mutate-programs COUNT SEED FAILED FILE...\n";
    return 2;
  }
  LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::string> corpus, programs;
  for (int i = 4; i < argc; ++i) {
    auto file = MemoryBuffer::getFile(argv[i]);
    if (!file) {
      errs() << argv[i] << ": " << file.getError().message() << "\n";
      return 2;
    }
    corpus.push_back((*file)->getBuffer().str());
  }
  std::mt19937 random;
  for (uint64_t i = 0; i < count; ++i, ++seed) {
    if (i % 1000 == 0) {
      programs = corpus;
      random.seed(static_cast<unsigned>(seed));
      if (i)
        print(seed);
    }
    std::string program = programs[random() % programs.size()];
    size_t size = program.size();
    program.resize(MaxSize);
    auto *data = reinterpret_cast<uint8_t *>(program.data());
    for (unsigned round = 1 + random() % 4; round > 0;
         --round) // even ones mutate programs, odd ones any JSON
      size = LLVMFuzzerCustomMutator(data, size, MaxSize,
                                     random() % 16 ? random() & ~1u : random() | 1u);
    program.resize(size);
    std::error_code error;
    raw_fd_ostream(argv[3], error) << program;
    alarm(Seconds);
    uint64_t compiled = counts.compiled;
    LLVMFuzzerTestOneInput(data, size);
    alarm(0);
    if (counts.compiled == compiled)
      continue;
    if (programs.size() < Kept)
      programs.push_back(std::move(program));
    else
      programs[random() % Kept] = std::move(program);
  }
  unlink(argv[3]);
  print(seed);
}
