// Writes a profile in the Trace Event Format, with sums in a section of its own.
#include "Profile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <set>

using namespace llvm;
using namespace kiln::run;

/// Rows of the trace: threads have the system's numbers, which are above 0.
static constexpr int64_t deviceRow = 0, process = 1;

/// Nanoseconds as microseconds, which the format has, without an error of rounding.
static void writeTime(json::OStream &json, StringRef key, int64_t nanoseconds) {
  json.attributeBegin(key);
  json.rawValue(formatv("{0}.{1,0+3}", nanoseconds / 1000, nanoseconds % 1000).str());
  json.attributeEnd();
}

static json::Value optional(int64_t value) {
  return value < 0 ? json::Value(nullptr) : json::Value(value);
}

static void writeRow(json::OStream &json, StringRef key, int64_t row, const Twine &name) {
  json.object([&] {
    json.attribute("ph", "M");
    json.attribute("name", key);
    json.attribute("pid", process);
    json.attribute("tid", row);
    json.attributeObject("args", [&] { json.attribute("name", name.str()); });
  });
}

void Profile::writeEvent(json::OStream &json, const kiln_profile_event &event) const {
  static constexpr StringLiteral categories[] = {"run", "step", "tasks"};
  json.object([&] {
    json.attribute("ph", "X");
    json.attribute("name", event.name);
    json.attribute("cat", categories[event.kind]);
    json.attribute("pid", process);
    json.attribute("tid", event.thread == KILN_PROFILE_DEVICE ? deviceRow : event.thread);
    writeTime(json, "ts", event.begin - origin);
    writeTime(json, "dur", event.end - event.begin);
    json.attributeObject("args", [&] {
      json.attribute("run", static_cast<int64_t>(event.run));
      if (event.kind == KILN_PROFILE_RUN)
        return;
      json.attribute("launch", event.launch);
      json.attribute("tasks", event.tasks);
      if (event.kind == KILN_PROFILE_SLICE)
        return;
      json.attribute("where", event.where);
      json.attribute("bytes", optional(event.bytes));
      json.attribute("weight_bytes", optional(event.weight_bytes));
      json.attribute("flops", optional(event.flops));
    });
  });
}

void Profile::writeEvents(json::OStream &json) const {
  std::set<int64_t> runners, workers;
  bool hasDevice = false;
  for (const kiln_profile_event &event : events) {
    hasDevice |= event.thread == KILN_PROFILE_DEVICE;
    if (event.kind == KILN_PROFILE_RUN)
      runners.insert(event.thread);
    else if (event.kind == KILN_PROFILE_SLICE)
      workers.insert(event.thread);
  }
  writeRow(json, "process_name", 0, "aot-run");
  for (int64_t thread : runners)
    writeRow(json, "thread_name", thread, "run");
  int64_t number = 0;
  for (int64_t thread : workers)
    if (!runners.count(thread))
      writeRow(json, "thread_name", thread, "worker " + Twine(++number));
  if (hasDevice)
    writeRow(json, "thread_name", deviceRow, "GPU");
  for (size_t i = 0; i < events.size();) {
    if (events[i].kind != KILN_PROFILE_MEMORY) {
      writeEvent(json, events[i++]);
      continue;
    }
    // The memory of a run, one counter of several values.
    json.object([&] {
      json.attribute("ph", "C");
      json.attribute("name", "memory");
      json.attribute("pid", process);
      writeTime(json, "ts", events[i].begin - origin);
      json.attributeObject("args", [&] {
        for (; i < events.size() && events[i].kind == KILN_PROFILE_MEMORY; ++i)
          json.attribute(events[i].name, events[i].bytes);
      });
    });
  }
}

void Profile::writeTotal(json::OStream &json, const StepTotal &total) const {
  auto perRun = double(std::max<size_t>(run.times.size(), 1));
  double time = double(std::max<int64_t>(total.time, 1)) * perRun;
  json::Value null(nullptr);
  auto rate = [&](int64_t amount) {
    return amount < 0 ? null : json::Value(double(amount) / time);
  };
  json.attribute("name", total.name);
  json.attribute("where", total.where);
  json.attribute("count", double(total.count) / perRun);
  json.attribute("ms", double(total.time) / 1e6);
  json.attribute("share", run.time ? double(total.time) / double(run.time) : 0);
  json.attribute("tasks", double(total.tasks) / perRun);
  json.attribute("bytes", total.bytes < 0 ? null : json::Value(double(total.bytes) / perRun));
  json.attribute("weight_bytes",
                 total.weightBytes < 0 ? null : json::Value(double(total.weightBytes) / perRun));
  json.attribute("flops", total.flops < 0 ? null : json::Value(double(total.flops) / perRun));
  json.attribute("gb_per_s", rate(total.bytes));
  json.attribute("gflop_per_s", rate(total.flops));
  json.attribute("roofline", total.limit > 0 ? json::Value(total.limit / time) : null);
  json.attribute("bound", !(total.limit > 0)                        ? null
                          : total.computeLimit >= total.memoryLimit ? json::Value("compute")
                                                                    : json::Value("memory"));
}

void Profile::writeSummary(json::OStream &json, const json::Value &info) const {
  const json::Object *model = info.getAsObject();
  auto copy = [&](StringRef key) {
    const json::Value *value = model ? model->get(key) : nullptr;
    json.attribute(key, value ? *value : json::Value(nullptr));
  };
  json.attribute("version", 1);
  copy("name");
  copy("target");
  json.attribute("threads", threads);
  json.attribute("runs", static_cast<int64_t>(run.times.size()));
  json.attribute("run_ms", double(run.time) / 1e6);
  json.attribute("dropped_events", dropped);
  json.attributeObject("memory_bytes", [&] {
    for (const auto &[name, bytes] : memory)
      json.attribute(name, bytes);
  });
  json.attributeObject("limits", [&] {
    json.attribute("gflop_per_s",
                   limits.flops > 0 ? json::Value(limits.flops / 1e9) : json::Value(nullptr));
    json.attributeArray("reads", [&] {
      for (const MachineLimits::ReadRate &read : limits.reads)
        json.object([&] {
          json.attribute("bytes", read.bytes);
          json.attribute("gb_per_s", read.rate / 1e9);
        });
    });
  });
  json.attributeArray("kernels", [&] {
    for (const StepTotal &kernel : kernels)
      json.object([&] {
        writeTotal(json, kernel);
        json.attribute("launches", json::Array(kernel.launches));
      });
  });
  json.attributeArray("launches", [&] {
    for (const auto &[number, total] : launches)
      json.object([&] {
        json.attribute("launch", number);
        writeTotal(json, total);
      });
  });
}

Error Profile::write(const std::string &path, const json::Value &info) const {
  std::error_code error;
  raw_fd_ostream stream(path, error);
  if (!error) {
    json::OStream json(stream);
    json.object([&] {
      json.attribute("displayTimeUnit", "ms");
      json.attributeArray("traceEvents", [&] { writeEvents(json); });
      json.attributeObject("kiln", [&] { writeSummary(json, info); });
    });
    stream << '\n';
    stream.close();
    error = stream.error();
    stream.clear_error();
  }
  return error ? createStringError(error, "cannot write " + path + ": " + error.message())
               : Error::success();
}
