// The host as a machine.
#include "Machine.h"
#include <cstdlib>
#include <cstring>
#include <ctime>

using namespace kiln::tune;

Machine::~Machine() = default;

namespace {

class Host : public Machine {
public:
  explicit Host(bool isAlone) : isAlone(isAlone) {}

  DLDevice getDevice() const override { return {kDLCPU, 0}; }

  void *allocate(size_t bytes) override {
    // At the same place of each page, operands would share sets of the cache.
    size_t offset = 64 * (++allocations % 61);
    auto *block = static_cast<char *>(
        std::aligned_alloc(page, (bytes + offset + 2 * page - 1) / page * page));
    return block ? block + offset : nullptr;
  }
  void release(void *memory) override {
    // Blocks begin with a page, in which the offset is.
    std::free(static_cast<char *>(memory) - reinterpret_cast<uintptr_t>(memory) % page);
  }
  void write(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void read(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }

  void start() override { marks.clear(); }
  void mark() override {
    timespec time;
    clock_gettime(isAlone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    marks.push_back(double(time.tv_sec) + 1e-9 * double(time.tv_nsec));
  }
  std::vector<double> finish() override {
    std::vector<double> times;
    for (size_t i = 1; i < marks.size(); ++i)
      times.push_back(marks[i] - marks[i - 1]);
    return times;
  }

private:
  static constexpr size_t page = 4096;
  bool isAlone;
  size_t allocations = 0;
  std::vector<double> marks;
};

} // namespace

std::unique_ptr<Machine> kiln::tune::makeHost(bool isAlone) {
  return std::make_unique<Host>(isAlone);
}
