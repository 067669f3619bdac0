// The memory that kernels are run on, and the clock that they are timed with: the host's or a GPU's.
#ifndef KILN_AOT_TUNE_MACHINE_H
#define KILN_AOT_TUNE_MACHINE_H

#include "kiln-c/model.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <vector>

namespace kiln::tune {

class Machine {
public:
  virtual ~Machine();

  virtual DLDevice getDevice() const = 0;
  /// Runs go on when they have been started, on memory that the host does not reach.
  virtual bool isDevice() const { return false; }

  /// Memory that begins where vectors do; null: there is not so much.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;
  /// Copies from the host's memory, and to it when all that was started has ended.
  virtual void write(void *to, const void *from, size_t bytes) = 0;
  virtual void read(void *to, const void *from, size_t bytes) = 0;
  /// Nothing can be run any more in this process.
  virtual bool isBroken() { return false; }

  /// Times between marks are asked for behind the last one: start, mark, run, mark, …, finish.
  virtual void start() = 0;
  virtual void mark() = 0;
  /// Seconds between each mark and the next.
  virtual std::vector<double> finish() = 0;
};

/// The clock is the thread's own if it is alone, otherwise that on the wall.
std::unique_ptr<Machine> makeHost(bool isAlone);

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_MACHINE_H
